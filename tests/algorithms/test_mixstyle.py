"""MixStyle: content stays, channel means and deviations become those of a mixture of two images."""

import pytest
import torch
from small import method
from torch import Tensor, nn
from torch.distributions import Beta

from hypo.algorithms.styles import restyled, stages, style
from hypo.model import HypoNet


def maps(n: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(n, 4, 5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hook(algorithm, x: Tensor) -> Tensor:
    """Maps as the algorithm's hook leaves them."""
    stage = nn.Identity().train(algorithm.training)
    stage.register_forward_hook(algorithm._mix)
    return stage(x)


def test_style_is_mean_and_deviation_of_each_channel():
    x = maps()
    mean, deviation = style(x, eps=0).chunk(2, dim=1)
    for i in range(6):
        for c in range(4):
            pixels = x[i, c].flatten().numpy()
            assert mean[i, c].item() == pytest.approx(pixels.mean())
            assert deviation[i, c].item() == pytest.approx(pixels.std())


def test_restyled_maps_have_the_new_style_and_the_old_content():
    x, other = maps(), 3 * maps(seed=1) + 2
    y = restyled(x, style(x), style(other))
    torch.testing.assert_close(style(y), style(other), rtol=1e-5, atol=1e-6)

    def content(x: Tensor) -> Tensor:
        mean, deviation = style(x).chunk(2, dim=1)
        return (x - mean) / deviation

    torch.testing.assert_close(content(y), content(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(restyled(x, style(x), style(x)), x)


def test_mixing_is_the_formula_for_the_partners_and_shares_drawn():
    algorithm, x = method("mixstyle", mix_probability=1.0, mix_alpha=0.4).train(), maps()
    torch.manual_seed(3)
    found = hook(algorithm, x)
    torch.manual_seed(3)
    torch.rand(())
    share, partner = Beta(0.4, 0.4).sample((6,)).double(), torch.randperm(6)
    for i, j in enumerate(partner.tolist()):
        (m, s), (n, t) = ((x[k].mean((1, 2)), (x[k].var((1, 2), correction=0) + 1e-6).sqrt()) for k in (i, j))
        a = share[i]
        normal = (x[i] - m[:, None, None]) / s[:, None, None]
        expected = normal * (a * s + (1 - a) * t)[:, None, None] + (a * m + (1 - a) * n)[:, None, None]
        torch.testing.assert_close(found[i], expected)


def test_styles_are_constants_of_the_gradient():
    """The gradient at a pixel is the ratio of the deviations: nothing through means and deviations. Pixels count
    differently, as the sum over all of them depends on the means only."""
    algorithm, x = method("mixstyle", mix_probability=1.0).train(), maps().requires_grad_()
    weight = 1 + maps(seed=1).abs()
    (weight * hook(algorithm, x)).sum().backward()
    ratio = x.grad / weight
    torch.testing.assert_close(ratio, ratio[:, :, :1, :1].expand_as(x))
    assert (ratio > 0).all()


def test_it_mixes_in_training_only_and_as_often_as_asked():
    algorithm, x = method("mixstyle", mix_probability=0.3), maps()
    assert torch.equal(hook(algorithm.eval(), x), x)
    algorithm.train()
    torch.manual_seed(0)
    changed = [not torch.equal(hook(algorithm, x), x) for _ in range(300)]
    assert sum(changed) / 300 == pytest.approx(0.3, abs=0.08)


def test_a_network_that_mixes_is_the_same_in_evaluation():
    algorithm = method("mixstyle", mix_probability=1.0)
    images = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    alone = algorithm.eval().encode(images[:1])
    torch.testing.assert_close(algorithm.encode(images)[:1], alone)
    algorithm.train()
    torch.manual_seed(0)
    first = algorithm.encode(images)
    assert not torch.equal(algorithm.encode(images), first)


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_stages_of_a_resnet_are_its_layers(stem):
    net = HypoNet("resnet18", 8, stem=stem, width=0.25).backbone
    layers = [net.layer1, net.layer2, net.layer3, net.layer4]
    assert stages(net) == list(zip(layers, (16, 32, 64, 128), strict=True))
    assert net.training and not any(layer._forward_hooks for layer in layers)


def test_stages_of_other_networks_end_where_the_resolution_drops():
    net = HypoNet("mobilenet_v2", 8).backbone
    assert stages(net) == [(net.features[i], c) for i, c in ((3, 24), (6, 32), (13, 96), (18, 1280))]
    with pytest.raises(ValueError, match="choose a ResNet"):
        stages(nn.Sequential(nn.Conv2d(3, 4, 3)))
