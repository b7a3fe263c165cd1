"""What methods share: by default a batch goes through the network once, and the loss is of its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from hypo.config import Config


class Algorithm(nn.Module):
    """See `hypo.algorithms` for the interface."""

    network: nn.Module

    def __init__(self, config: Config, num_classes: int) -> None:
        super().__init__()
        self.config, self.num_classes = config, num_classes

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def losses(self, images: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        return self.loss(self.network(images), y, domains)

    def forward(self, images: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        return self.losses(images, y, domains)

    def logits(self, outputs: Tensor) -> Tensor:
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:
        return self.logits(outputs).argmax(dim=1)

    def embed(self, outputs: Tensor) -> Tensor:
        raise NotImplementedError

    def prototypes(self) -> Tensor | None:
        return None

    def refit(self, outputs: Tensor, y: Tensor) -> None:
        """Nothing depends on the training set but the weights."""

    def fresh(self) -> list[nn.Module]:
        return []
