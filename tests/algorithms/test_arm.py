"""ARM: an image is seen beside the mean context of its domain's images."""

import pytest
import torch
from small import method, trainer
from torch import nn

from hypo.model import HypoNet, add_input_channel


def images(n: int = 9) -> torch.Tensor:
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_context_is_the_mean_over_the_images_of_a_domain():
    algorithm, x, domains = method("arm").eval(), images(), torch.tensor([0, 1, 2, 0, 1, 0, 0, 1, 2])
    found = algorithm.in_context(x, domains)
    maps = algorithm.context(x)
    assert found.shape == (9, 4, 16, 16) and torch.equal(found[:, :3], x)
    for i in range(9):
        same = [maps[j] for j in range(9) if domains[j] == domains[i]]
        torch.testing.assert_close(found[i, 3:], sum(same) / len(same))


def test_a_domain_is_evaluated_with_the_context_of_the_images_passed():
    algorithm, x = method("arm").eval(), images()
    with_weights(algorithm)
    context = algorithm.context(x).mean(0, keepdim=True).expand(9, 1, 16, 16)
    torch.testing.assert_close(algorithm.encode(x), algorithm.network(torch.cat([x, context], dim=1)))
    assert not torch.allclose(algorithm.encode(x)[:4], algorithm.encode(x[:4]))


def with_weights(algorithm) -> None:
    with torch.no_grad():
        algorithm.context[-1].weight.normal_()


@pytest.mark.parametrize("backbone", ["resnet18", "mobilenet_v2"])
def test_the_other_channels_are_kept_and_read_no_context_where_it_is_zero(backbone):
    net = HypoNet(backbone, 8, width=0.25).backbone.eval()
    x = torch.randn(2, 3, 32, 32)
    before = net(x)
    add_input_channel(net)
    torch.testing.assert_close(net(torch.cat([x, torch.zeros(2, 1, 32, 32)], dim=1)), before)


def test_the_new_channel_has_the_mean_of_the_other_filters_and_the_bias_is_kept():
    net = nn.Sequential(nn.Conv2d(3, 4, 5, stride=2, padding=1))
    x, context = torch.randn(2, 3, 16, 16), torch.randn(2, 1, 16, 16)
    before = net(x + context / 3)  # what a third of it in each of red, green and blue does
    add_input_channel(net)
    torch.testing.assert_close(net(torch.cat([x, context], dim=1)), before)


def test_training_starts_as_if_there_were_no_context_which_learns_from_the_first_step_on():
    run = trainer("arm")
    batch = run.batch(0)
    assert not run.algorithm.in_context(batch.images, batch.domains)[:, 3].any()
    run.step()
    assert run.algorithm.in_context(batch.images, batch.domains)[:, 3].abs().max() > 0
    before = [p.detach().clone() for p in run.algorithm.context.parameters()]
    run.step()
    assert not any(torch.equal(p, b) for p, b in zip(run.algorithm.context.parameters(), before, strict=True))
