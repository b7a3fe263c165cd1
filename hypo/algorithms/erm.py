"""ERM: cross-entropy over the pooled domains (Vapnik, 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, setting
from hypo.suggest import one_of

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    """For controls: the network that HYPO has, and the batches of the methods that compare domains."""

    head: str = setting("linear", "on the features: linear, or mlp for HYPO's head and a classifier on it")
    balanced: bool = setting(False, "whether a batch has as many images of each training domain")

    def __post_init__(self) -> None:
        one_of("head", self.head, ("linear", "mlp"))


class ERM(Algorithm):
    """L = -1/N sum_i log softmax(W f_i + b)_{y_i}, with features f_i (d,), weights W (C, d) and biases b (C,).

    V. Vapnik: An overview of statistical learning theory, IEEE Transactions on Neural Networks, 1999.
    """

    Hyperparameters = Hyperparameters

    def build(self, net: HypoNet) -> None:
        super().build(net)
        if self.config.method.balanced:
            self.sampling = "per_domain"
        if self.config.method.head == "mlp":
            self.network = nn.Sequential(net.backbone, net.head)
            self.classifier = nn.Linear(self.config.dim, self.num_classes)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {"total": F.cross_entropy(self.logits(outputs), y)}

    def fresh(self) -> list[nn.Module]:
        return [self.classifier] if self.config.method.head == "linear" else [self.network[1], self.classifier]
