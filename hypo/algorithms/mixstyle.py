"""MixStyle: feature maps with the style of two images mixed (Zhou et al., ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Beta

from hypo.algorithms.base import Algorithm, setting
from hypo.algorithms.styles import restyled, stages, style
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
