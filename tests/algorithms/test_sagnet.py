"""SagNet: three losses, each of which trains its own part of the network."""

import torch
import torch.nn.functional as F
from small import method, trainer
from torch import Tensor

from hypo.algorithms.sagnet import SagNet
from hypo.algorithms.styles import restyled, style


def batch() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(8, 3, 32, 32, generator=random, dtype=torch.float64), torch.randint(5, (8,), generator=random)


def terms(algorithm: SagNet) -> dict[str, Tensor]:
    images, y = batch()
    return algorithm.loss(algorithm.encode(images), y, y)


def trained_by(algorithm: SagNet, term: str) -> set[str]:
    """Names of parameters with a gradient that is not zero."""
    algorithm.zero_grad()
    terms(algorithm)[term].backward()
    return {name for name, p in algorithm.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}


def test_the_losses_train_disjoint_parts():
    algorithm = method("sagnet").train()
    early = ("network.backbone.conv1", "network.backbone.bn1", "network.backbone.layer1", "network.backbone.layer2")
    names = {name for name, _ in algorithm.named_parameters()}
    of_style = {name for name in names if name.startswith("network.style")}
    assert len(of_style) == 4
    assert trained_by(algorithm, "style") == of_style
    assert trained_by(algorithm, "entropy") == names - of_style
    assert trained_by(algorithm, "adversary") == {name for name in names if name.startswith(early)}


def test_total_is_the_weighted_sum_and_the_adversary_wants_a_guess():
    algorithm = method("sagnet", adversarial=0.3).train()
    x = torch.randn(6, algorithm.feature_dim + 10, dtype=torch.float64)
    y = torch.arange(6) % 5
    found = algorithm.loss(x, y, y)
    guess = torch.full((6, 5), 0.2, dtype=torch.float64)
    torch.testing.assert_close(found["entropy"], F.cross_entropy(algorithm.classifier(x[:, :-10]), y))
    torch.testing.assert_close(found["style"], F.cross_entropy(x[:, -10:-5], y))
    torch.testing.assert_close(found["adversary"], F.cross_entropy(x[:, -5:], guess))
    torch.testing.assert_close(found["total"], found["entropy"] + found["style"] + 0.3 * found["adversary"])


def randomised(x: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """SR(x), CR(x), and the partners and shares drawn for them."""
    network = method("sagnet").network.train()
    torch.manual_seed(seed)
    styled = network._randomise(network.backbone.layer2, (), x)
    torch.manual_seed(seed)
    partner = torch.randperm(len(x))
    return styled, network.randomised_content, partner, torch.rand(len(x), 1, 1, 1).double()


def test_style_is_randomised_with_the_content_kept_and_the_other_way_round():
    x = torch.randn(6, 4, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    styled, swapped, partner, share = randomised(x, 1)
    mixture = share * style(x) + (1 - share) * style(x[partner])
    torch.testing.assert_close(style(styled), mixture, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(restyled(styled, style(styled), style(x)), x, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(style(swapped), style(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(restyled(swapped, style(swapped), style(x[partner])), x[partner], rtol=1e-4, atol=1e-4)


def test_both_logits_are_of_the_style_network_on_randomised_content():
    algorithm = method("sagnet").train()
    outputs = algorithm.encode(batch()[0])
    assert outputs.shape == (8, algorithm.feature_dim + 10)
    torch.testing.assert_close(outputs[:, -10:-5], outputs[:, -5:])
    assert algorithm.network.randomised_content is None


def test_evaluation_is_the_backbone_alone():
    algorithm, (images, _) = method("sagnet").eval(), batch()
    outputs = algorithm.encode(images)
    assert outputs.shape == (8, algorithm.feature_dim)
    torch.testing.assert_close(algorithm.encode(images[:3]), outputs[:3])


def test_the_adversary_makes_style_worse():
    losses = []
    for weight in (0.0, 10.0):
        run = trainer("sagnet", adversarial=weight, epochs=12)
        losses.append([run.step()["style"] for _ in range(run.total_steps)])
    assert sum(losses[0][-4:]) < sum(losses[1][-4:])
