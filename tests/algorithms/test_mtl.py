"""MTL: the classifier sees the feature and a moving average of the domain's mean feature."""

import torch
import torch.nn.functional as F
from small import features, method


def test_embeddings_are_weighted_means_of_the_batch_means():
    algorithm = method("mtl", ema=0.8).train()
    seen = []
    for step in range(6):
        x, y, domains = features(algorithm, seed=step)
        seen.append([x[domains == e].mean(0) for e in range(3)])
        terms = algorithm.loss(x, y, domains)
        weights = [0.8 ** (step - t) for t in range(step + 1)]
        expected = [sum(w * means[e] for w, means in zip(weights, seen, strict=True)) / sum(weights) for e in range(3)]
        logits = algorithm.classifier(torch.cat([x, torch.stack([expected[e] for e in domains])], dim=1))
        torch.testing.assert_close(terms["total"], F.cross_entropy(logits, y), rtol=1e-10, atol=0)


def test_the_first_embedding_is_the_batch_mean_and_not_a_hundredth_of_it():
    algorithm = method("mtl").train()
    means = torch.randn(3, algorithm.feature_dim, dtype=torch.float64)
    torch.testing.assert_close(algorithm.embeddings(means), means)


def test_the_gradient_goes_through_the_last_batch_only():
    algorithm = method("mtl", ema=0.8).train()
    algorithm.embeddings(torch.randn(3, algorithm.feature_dim, dtype=torch.float64))
    means = torch.randn(3, algorithm.feature_dim, dtype=torch.float64, requires_grad=True)
    algorithm.embeddings(means).sum().backward()
    torch.testing.assert_close(means.grad, torch.full_like(means, 1 / 1.8))
    assert not algorithm.sums.requires_grad


def test_nothing_moves_in_evaluation():
    algorithm = method("mtl").train()
    algorithm.loss(*features(algorithm))
    before = algorithm.sums.clone(), algorithm.weights.clone()
    algorithm.eval().loss(*features(algorithm, seed=1))
    assert torch.equal(algorithm.sums, before[0]) and torch.equal(algorithm.weights, before[1])


def test_evaluation_takes_the_mean_of_the_images_passed_together():
    algorithm = method("mtl").eval()
    images = torch.randn(7, 3, 16, 16, dtype=torch.float64)
    x = algorithm.network(images)
    outputs = algorithm.encode(images)
    torch.testing.assert_close(outputs, torch.cat([x, x.mean(0).expand(7, -1)], dim=1))
    assert algorithm.logits(outputs).shape == (7, 5)
    torch.testing.assert_close(algorithm.embed(outputs), F.normalize(x, dim=1))
