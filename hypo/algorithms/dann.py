"""DANN: features from which a discriminator cannot tell the training domain (Ganin et al., JMLR 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hypo.algorithms.adversarial import losses_of_both_sides, mlp, optimisers_of_both_sides
from hypo.algorithms.base import Algorithm, Batch, setting

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(1.0, "lambda, on the reversed gradient, which it grows to during training", at_least=0)
    hidden: int = setting(256, "hidden units of the discriminator", at_least=1)
    discriminator_lr: float = setting(1.0, "rate of the discriminator, times that of the classifier", above=0)


class DANN(Algorithm):
    """min over encoder f and classifier, max over discriminator D of  H(y, W f) - lambda_p H(e, D(f)).

    H             cross-entropy, mean over the batch: of classes y, of training domains e
    D             two hidden layers on the features; it descends H(e, D(f)) at the full rate, by an optimiser of its own
    lambda_p      lambda (2 / (1 + exp(-10 p)) - 1) at progress p in [0, 1): the encoder first learns the classes

    One pass serves both sides: between f and D the gradient is multiplied by -lambda_p. Y. Ganin et al.,
    Domain-adversarial training of neural networks, JMLR 2016.

    Avoids: turns of the two sides, of which only one in a few trains the classes, and a gradient penalty of the
    discriminator inside the loss that the encoder ascends, so that the encoder makes it larger.
    """

    Hyperparameters = Hyperparameters
    kind = "modules"
    sampling = "per_domain"

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """From random weights the encoder at lambda = 1 hides the domains and never learns the classes."""
        return {"penalty": 0.1} if scale == "demo" else {}

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.discriminator = mlp(self.feature_dim, self.config.method.hidden, self.num_domains)

    def optimisers(self) -> list[Optimizer]:
        return optimisers_of_both_sides(self, self.discriminator)

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        return losses_of_both_sides(self, batch, progress, self.adversary)

    def adversary(self, outputs: Tensor, y: Tensor, domains: Tensor) -> Tensor:  # noqa: ARG002
        """H(e, D(f)) of features (N, k) and domains (N,)."""
        return F.cross_entropy(self.discriminator(outputs), domains)

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.discriminator]
