"""SagNet: a network that goes by content, kept from style by an adversary (Nam et al., CVPR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from hypo.algorithms.base import Algorithm, setting
from hypo.algorithms.styles import restyled, stages, style
from hypo.distributed import rows_of_all

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    adversarial: float = setting(0.1, "weight of the adversarial loss of the early stages", at_least=0)
    style_channels: int = setting(256, "channels of the style network's hidden layer", at_least=1)


class SagNet(Algorithm):
    """L = H(y, c(SR(x))) + H(y, s(CR(x))) + w H(uniform, s(CR(x))), each training its own part of the network.

    x = f(image)  maps after the second stage of the backbone; c is the rest and the classifier, s the style network
    SR(x)_i       x_i with the style l style(x_i) + (1 - l) style(x_j), l uniform in [0, 1]: content stays
    CR(x)_i       x_j with the style of x_i: style stays
    H             cross-entropy, j a random partner in the batch, style the mean and deviation of each channel

    The first term trains f and c, the second only s, the third only f, until s can tell nothing. H. Nam et
    al., Reducing domain gap by reducing style bias, CVPR 2021; there s is a copy of c, and the third term trains only
    the affine parameters of f's batch norm. With `accumulate` partners are of one part, as the maps of another are not
    in memory.

    Avoids: "style" taken from pooled feature vectors, which have one mean and one deviation in all and no pixels left.
    """

    Hyperparameters = Hyperparameters
    kind = "network"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.network = Stylised(net.backbone, self.config.method.style_channels, self.num_classes)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        features, style, fooled = outputs.split([self.feature_dim, self.num_classes, self.num_classes], dim=1)
        entropy, style = F.cross_entropy(self.logits(features), y), F.cross_entropy(style, y)
        adversary = -fooled.log_softmax(dim=1).mean()
        total = entropy + style + self.config.method.adversarial * adversary
        return {"total": total, "entropy": entropy, "style": style, "adversary": adversary}

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.network.style]


class Stylised(nn.Module):
    """Images -> features (N, k); in training (N, k + 2C): of randomised style, and beside them the logits s(CR(x)) that
    train s and those that train f."""

    def __init__(self, backbone: nn.Module, channels: int, num_classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        stage, inputs = stages(backbone)[1]
        stage.register_forward_hook(self._randomise)
        self.style = nn.Sequential(
            *(nn.Conv2d(inputs, channels, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Linear(channels, num_classes),
        )

    def _randomise(self, stage: nn.Module, _inputs: tuple, x: Tensor) -> Tensor | None:
        """SR(x), which goes on through the backbone; CR(x) is kept."""
        if not stage.training:
            return None
        maps, mine = rows_of_all(x)
        partners = maps[torch.randperm(len(maps))[mine]]
        share = torch.rand(len(maps), 1, 1, 1)[mine].to(x)
        own, other = style(x), style(partners)
        self.randomised_content = restyled(partners, other, own)
        return restyled(x, own, other.lerp(own, share))

    def forward(self, images: Tensor) -> Tensor:
        features = self.backbone(images)
        if not self.training:
            return features
        x, self.randomised_content = self.randomised_content, None
        constant = {name: p.detach() for name, p in self.style.named_parameters()}
        return torch.cat([features, self.style(x.detach()), functional_call(self.style, constant, x)], dim=1)
