"""MixStyle: feature maps with the style of two images mixed (Zhou et al., ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Beta

from hypo.algorithms.base import Algorithm, setting
from hypo.distributed import rows_of_all

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    mix_probability: float = setting(0.5, "of a batch being mixed at a stage", at_least=0, at_most=1)
    mix_alpha: float = setting(0.1, "of Beta(alpha, alpha), which an image's share of its own style is from", above=0)


class MixStyle(Algorithm):
    """L = cross-entropy of a network that, with probability p, changes the maps x_i after its stages 1 and 2 into
    (l s_i + (1 - l) s_j) (x_i - m_i) / s_i + l m_i + (1 - l) m_j.

    m_i, s_i      mean and standard deviation over the pixels of each channel of x_i, as constants
    j             another image of the batch, by a random permutation
    l             drawn from Beta(alpha, alpha) for each image

    K. Zhou et al., Domain generalization with MixStyle, ICLR 2021, with partners drawn without regard to domains.
    With `accumulate` partners are of one part, as the maps of another are not in memory.

    Avoids: taking the two halves of a batch for two domains, whatever its order; mixing when evaluated; partners and
    shares that depend on which rank an image is on.
    """

    Hyperparameters = Hyperparameters
    kind = "network"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        for stage, _ in stages(self.network)[:2]:
            stage.register_forward_hook(self._mix)

    def _mix(self, stage: nn.Module, _inputs: tuple, x: Tensor) -> Tensor | None:
        method = self.config.method
        if not stage.training or torch.rand(()) >= method.mix_probability:
            return None
        own = style(x.detach())
        every, mine = rows_of_all(own)
        share = Beta(method.mix_alpha, method.mix_alpha).sample((len(every), 1, 1, 1))[mine].to(x)
        other = every[torch.randperm(len(every))[mine]]
        return restyled(x, own, other.lerp(own, share))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {"total": F.cross_entropy(self.logits(outputs), y)}


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
