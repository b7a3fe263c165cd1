"""RSC: the features with the largest gradients are muted, where that costs the true class most."""

import numpy as np
import torch
import torch.nn.functional as F
from small import features, method


def by_hand(algorithm, outputs, y, features_share: float, samples_share: float) -> np.ndarray:
    """The mask, from autograd's gradient of the true logit, sorted in NumPy."""
    x = outputs.clone().requires_grad_()
    logits = algorithm.classifier(x)
    gradient = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), x)[0].numpy()
    n, d = gradient.shape
    muted = np.ones((n, d))
    for i in range(n):
        muted[i, np.argsort(-gradient[i])[: round(features_share * d)]] = 0
    fall = np.zeros(n)
    for i in range(n):
        before, after = (
            F.softmax(algorithm.classifier(row), dim=0)[y[i]].item()
            for row in (outputs[i], outputs[i] * torch.tensor(muted[i]))
        )
        fall[i] = before - after
    mask = np.ones((n, d))
    for i in np.argsort(-fall)[: round(samples_share * n)]:
        mask[i] = muted[i]
    return mask


def test_largest_gradients_are_muted_where_the_true_class_falls_most():
    algorithm = method("rsc", muted_features=0.4, muted_samples=0.25)
    outputs, y, _ = features(algorithm)
    np.testing.assert_array_equal(algorithm.mask(outputs, y).numpy(), by_hand(algorithm, outputs, y, 0.4, 0.25))


def test_a_third_of_the_features_in_a_third_of_the_batch():
    algorithm = method("rsc")
    outputs, y, domains = features(algorithm)
    mask = algorithm.mask(outputs, y)
    muted = (mask == 0).sum(dim=1)
    assert sorted(muted.tolist()) == 16 * [0] + 8 * [round(algorithm.feature_dim / 3)]
    terms = algorithm.loss(outputs, y, domains)
    torch.testing.assert_close(terms["total"], F.cross_entropy(algorithm.classifier(outputs * mask), y))
    torch.testing.assert_close(terms["entropy"], F.cross_entropy(algorithm.classifier(outputs), y))
    assert terms["total"] > terms["entropy"]


def test_ties_mute_no_more():
    algorithm = method("rsc")
    outputs, y, _ = features(algorithm)
    with torch.no_grad():
        algorithm.classifier.weight.fill_(1.0)
    assert (algorithm.mask(torch.zeros_like(outputs), y) == 0).sum() == 8 * round(algorithm.feature_dim / 3)


def test_muting_nothing_is_cross_entropy_and_muted_features_get_no_gradient():
    algorithm = method("rsc", muted_samples=0.0)
    outputs, y, domains = features(algorithm)
    torch.testing.assert_close(*algorithm.loss(outputs, y, domains).values())
    algorithm = method("rsc")
    mask = algorithm.mask(outputs, y)
    outputs.requires_grad_()
    algorithm.loss(outputs, y, domains)["total"].backward()
    assert torch.equal(outputs.grad == 0, mask == 0)
