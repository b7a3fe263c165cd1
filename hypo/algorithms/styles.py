"""What MixStyle and SagNet share: the style of feature maps, and where in a network to change it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def style(x: Tensor, eps: float = 1e-6) -> Tensor:
    """(N, 2C, 1, 1) of maps (N, C, H, W): each channel's mean over the pixels, then each one's standard deviation."""
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    return torch.cat([mean, (variance + eps).sqrt()], dim=1)


def restyled(x: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Maps x (N, C, H, W) of the style `old` with the style `new` (N, 2C, 1, 1)."""
    (old_mean, old_deviation), (mean, deviation) = old.chunk(2, dim=1), new.chunk(2, dim=1)
    return (x - old_mean) / old_deviation * deviation + mean


def stages(backbone: nn.Module) -> list[tuple[nn.Module, int]]:
    """The modules that end the last four stages of a convolutional network, and their channels.

    A stage is what lies at one resolution; in a ResNet these are layer1 to layer4. They are found by passing a black
    image.
    """
    last: dict[int, tuple[nn.Module, int]] = {}

    def note(module: nn.Module, _inputs: tuple, x: Tensor) -> None:
        if isinstance(x, Tensor) and x.dim() == 4 and x.shape[-1] > 1:
            last[x.shape[-1]] = module, x.shape[1]

    handles = [m.register_forward_hook(note) for m in getattr(backbone, "features", backbone).children()]
    training = backbone.training
    with torch.no_grad():
        backbone.eval()(torch.zeros(1, 3, 128, 128))
    backbone.train(training)
    for handle in handles:
        handle.remove()
    if len(last) < 4:
        raise ValueError("this backbone has no four stages of feature maps: choose a ResNet or mobilenet_v2")
    return list(last.values())[-4:]
