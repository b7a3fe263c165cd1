"""HypoNet: a torchvision backbone and a projection head onto the unit sphere."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from hypo.sphere import to_sphere
from hypo.suggest import one_of


class HypoNet(nn.Module):
    """h(x) / ||h(x)||: images (N, 3, H, W) -> unit vectors (N, d).

    backbone  any classification model torchvision knows ("resnet18", "resnet50", "mobilenet_v2", ...); its
              classifier is removed. The paper: resnet18 for CIFAR-10, resnet34 for ImageNet-100, else resnet50
    dim       d, the embedding size. The head is Linear(f, f), ReLU, Linear(f, d) on the f features of the backbone
    weights   where the backbone starts: a torchvision weights name ("IMAGENET1K_V2", "DEFAULT"), the path of a
              state-dict file of the backbone, or None for a random start
    stem      "imagenet", or "cifar" (ResNets only): a 3x3 convolution of stride 1 and no pooling, for small images
    width     multiplies the number of channels (resnet18, resnet34, resnet50 and mobilenet_v2)
    """

    def __init__(
        self,
        backbone: str = "resnet18",
        dim: int = 128,
        weights: str | Path | None = None,
        stem: str = "imagenet",
        width: float = 1.0,
    ) -> None:
        super().__init__()
        one_of("backbone", backbone, torchvision.models.list_models(module=torchvision.models))
        one_of("stem", stem, ("imagenet", "cifar"))
        if dim < 2:
            raise ValueError(f"dim must be at least 2 for a sphere to turn on, not {dim}")
        self.backbone = _build(backbone, stem, width)
        self.feature_dim, classifier = _remove_classifier(self.backbone)
        if weights is not None:
            _load(self.backbone, _state_dict(backbone, weights), classifier, str(weights))
        self.head = nn.Sequential(
            nn.Linear(self.feature_dim, self.feature_dim), nn.ReLU(inplace=True), nn.Linear(self.feature_dim, dim)
        )

    def forward(self, images: Tensor) -> Tensor:
        return to_sphere(self.head(self.backbone(images)))


def add_input_channel(network: nn.Module) -> None:
    """Let the first convolution take one more channel, with the mean of its other filters, in place."""
    name, old = next((name, m) for name, m in network.named_modules() if isinstance(m, nn.Conv2d))
    new = nn.Conv2d(
        *(old.in_channels + 1, old.out_channels, old.kernel_size, old.stride, old.padding, old.dilation),
        bias=old.bias is not None,
    )
    with torch.no_grad():
        new.weight.copy_(torch.cat([old.weight, old.weight.mean(dim=1, keepdim=True)], dim=1))
        if old.bias is not None:
            new.bias.copy_(old.bias)
    parent, _, child = name.rpartition(".")
    setattr(network.get_submodule(parent), child, new)


RESNETS = {
    "resnet18": (BasicBlock, [2, 2, 2, 2]),
    "resnet34": (BasicBlock, [3, 4, 6, 3]),
    "resnet50": (Bottleneck, [3, 4, 6, 3]),
}


class _SlimResNet(ResNet):
    """torchvision's ResNet with every stage `width` times as wide."""

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: list[int], width: float) -> None:
        self.width = width
        super().__init__(block, layers)
        stem = self._slim(64)
        self.conv1 = nn.Conv2d(3, stem, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        nn.init.kaiming_normal_(self.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.fc = nn.Linear(self.inplanes, self.fc.out_features)

    def _slim(self, channels: int) -> int:
        return max(1, round(channels * self.width))

    def _make_layer(self, block, planes: int, *args, **kwargs) -> nn.Sequential:
        if planes == 64:
            self.inplanes = self._slim(64)
        return super()._make_layer(block, self._slim(planes), *args, **kwargs)


def _build(name: str, stem: str, width: float) -> nn.Module:
    options = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if width == 1:
        model = torchvision.models.get_model(name, weights=None, **options)
    elif not width > 0:
        raise ValueError(f"width must be above 0, not {width}")
    elif name in RESNETS:
        model = _SlimResNet(*RESNETS[name], width)
    elif name == "mobilenet_v2":
        model = torchvision.models.mobilenet_v2(width_mult=width)
    else:
        raise ValueError(f"width is for {', '.join(RESNETS)} and mobilenet_v2, not {name}; leave it at 1")
    for auxiliary in ("AuxLogits", "aux1", "aux2"):
        if getattr(model, auxiliary, None) is not None:
            setattr(model, auxiliary, None)
            model.aux_logits = False
    if stem == "cifar":
        if not isinstance(model, ResNet):
            raise ValueError(f"stem='cifar' is for ResNets, not {name}; leave it at 'imagenet'")
        channels = model.conv1.out_channels
        model.conv1 = nn.Conv2d(3, channels, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
    return model


def _remove_classifier(model: nn.Module) -> tuple[int, str]:
    """Replace the last linear layer (or 1x1 convolution, in SqueezeNets) by the identity; its input size and name."""
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not layers:
        layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d)]
    name, layer = layers[-1]
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, nn.Identity())
    return (layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels), name


def _state_dict(backbone: str, weights: str | Path) -> dict[str, Tensor]:
    if Path(weights).is_file():
        try:
            found = torch.load(weights, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file may raise anything in torch's reader
            found = error
        if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
            raise ValueError(
                f"{weights} is no state-dict file that torch.load can read safely: save model.state_dict()"
            ) from (found if isinstance(found, Exception) else None)
        return found
    if isinstance(weights, Path) or "/" in weights or Path(weights).suffix:
        raise ValueError(
            f"no weights file {weights}: give the path of a state-dict file, a torchvision weights name, or None"
        )
    known = torchvision.models.get_model_weights(backbone)
    entry = (
        known["DEFAULT"]
        if weights == "DEFAULT"
        else known[one_of(f"weights of {backbone}", weights, known.__members__)]
    )
    cached = Path(torch.hub.get_dir(), "checkpoints", Path(entry.url).name)
    if not cached.is_file():
        try:
            cached.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(entry.url, str(cached), _known_digest(cached), progress=False)
        except (OSError, RuntimeError) as error:  # a RuntimeError: it came with another digest
            raise ValueError(
                f"the {weights} weights could not be fetched ({error}); download {entry.url} and pass its path"
            ) from error
    refuse_damaged(cached)
    return _state_dict(backbone, cached)


def refuse_damaged(path: Path) -> None:
    """Refuse a file of published weights, whose name ends in the start of its sha256, that holds something else."""
    with path.open("rb") as file:
        if not hashlib.file_digest(file, "sha256").hexdigest().startswith(_known_digest(path)):
            raise ValueError(f"{path} is damaged, or not the published file of that name: delete it or fetch it again")


def _known_digest(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def _load(model: nn.Module, state: dict[str, Tensor], classifier: str, source: str) -> None:
    """Load the backbone's part of a published state dict; the classifier and auxiliary heads are left out."""
    if not isinstance(state, dict):
        raise ValueError(f"{source} holds a {type(state).__name__}, not a state dict: save model.state_dict()")
    unused = (f"{classifier}.", "AuxLogits.", "aux1.", "aux2.")
    state = {key: value for key, value in state.items() if not key.startswith(unused)}
    own = model.state_dict()
    wrong = [k for k in own if k not in state] + [k for k in state if k not in own]
    wrong += [k for k in own if k in state and own[k].shape != getattr(state[k], "shape", None)]
    if wrong:
        raise ValueError(
            f"{source} does not fit this backbone: {len(wrong)} tensors differ, the first is {wrong[0]}; "
            "check the backbone's name, stem and width"
        )
    model.load_state_dict(state)
