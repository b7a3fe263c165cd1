"""Augmentation of whole batches on the model's device, with its own random parameters for every sample.

The operations are those of torchvision v2 on float images, without antialiasing. One thing differs: the order within a
colour jitter is fixed (brightness, contrast, saturation, hue), where torchvision draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from hypo.suggest import one_of

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
LUMA = (0.2989, 0.587, 0.114)
CHUNK = 16  # images worked on at a time, so that a chunk stays in a processor's cache: 1.3 to 1.5 times as fast as 64
TRIES = 10  # boxes drawn for each sample before the whole image is taken, as in torchvision's RandomResizedCrop


@dataclass(frozen=True)
class Recipe:
    """How a benchmark's images are augmented.

    mean, std     per channel, of images in [0, 1]
    area          range of the crop's share of the image; the crop is resized back
    ratio         range of the crop's width / height, log-uniform
    flip          probability of a horizontal flip
    brightness, contrast, saturation   b: the factor is uniform in [1 - b, 1 + b]
    hue           b: the shift is uniform in [-b, b], in turns of the colour wheel
    jitter        probability that these four are applied
    greyscale     probability of dropping the colour
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    area: tuple[float, float] = (1.0, 1.0)
    ratio: tuple[float, float] = (1.0, 1.0)
    flip: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    jitter: float = 1.0
    greyscale: float = 0.0


RECIPES = {
    "pacs": Recipe(*IMAGENET, (0.7, 1.0), (3 / 4, 4 / 3), 0.5, 0.3, 0.3, 0.3, 0.3, greyscale=0.1),
    "cifar": Recipe(*CIFAR, (0.2, 1.0), (3 / 4, 4 / 3), 0.5, 0.4, 0.4, 0.4, 0.1, jitter=0.8, greyscale=0.2),
    "crops": Recipe(*CIFAR, (0.5, 1.0), (3 / 4, 4 / 3), 0.5),
    "light": Recipe(*CIFAR, (0.8, 1.0), flip=0.5),
    "digits": Recipe(*HALF, area=(0.8, 1.0)),
    "none": Recipe(*IMAGENET),
}
"""The released code's for PACS and CIFAR-10; "crops" and "light" suit a short training on CIFAR-10 and leave the
colours alone; digits are moved and enlarged a little; "none" only normalises."""


def step_generator(seed: int, epoch: int, step: int, stream: int = 0) -> torch.Generator:
    """The random numbers of one training step.

    They depend on nothing that came before, so a run resumed at any step draws what the uninterrupted run would have.
    stream: tells apart uses within a step, such as the two views of an image.
    """
    mixed = np.random.SeedSequence(seed, spawn_key=(epoch, step, stream)).generate_state(1)[0]
    return torch.Generator().manual_seed(int(mixed))


def normalise(images: Tensor, recipe: str) -> Tensor:
    """uint8 (B, 3, H, W) -> float (B, 3, H, W), less the recipe's mean, over its deviation: what is evaluated on."""
    r = _checked(images, recipe)
    return _normalised(_unit(images), r)


def augment(images: Tensor, recipe: str, generator: torch.Generator) -> Tensor:
    """uint8 (B, 3, H, W) on any device -> float (B, 3, H, W) there, augmented and normalised.

    All random numbers come from `generator` on the CPU, as many for each sample whatever the recipe, and become
    parameters there, so that a seed means the same augmentation on every device.
    """
    r = _checked(images, recipe)
    drawn = torch.rand(len(images), 2 * TRIES + 9, generator=generator)
    area, ratio, rest = drawn.split((TRIES, TRIES, 9), dim=1)
    top, left, flip, jitter, *factors, grey = rest.unbind(1)
    boxes = draw_boxes(*images.shape[2:], r, area, ratio, top, left)
    spread = torch.tensor([r.brightness, r.contrast, r.saturation, r.hue])
    changes = spread * (2 * torch.stack(factors, 1) - 1) * (jitter < r.jitter)[:, None]  # (B, 4)
    drawn = (p.to(images.device, non_blocking=True) for p in (boxes, flip < r.flip, changes, grey < r.greyscale))
    parts = zip(*(p.split(CHUNK) for p in (images, *drawn)), strict=True)
    return torch.cat([_augmented(r, *part) for part in parts])


def _augmented(r: Recipe, images: Tensor, boxes: Tensor, flip: Tensor, changes: Tensor, grey: Tensor) -> Tensor:
    """`augment` with its parameters: (b, 3, H, W), (b, 4), (b,) bool, (b, 4), (b,) bool -> (b, 3, H, W)."""
    x = resized_crop(_unit(images), boxes, flip)
    brightness, contrast, saturation, hue = changes.unbind(1)
    if r.brightness:
        x = adjust_brightness(x, 1 + brightness)
    if r.contrast:
        x = adjust_contrast(x, 1 + contrast)
    if r.saturation:
        x = adjust_saturation(x, 1 + saturation)
    if r.hue:
        x = adjust_hue(x, hue)
    if r.greyscale:
        x = adjust_saturation(x, 1 - grey.float())
    return _normalised(x, r)


def draw_boxes(height: int, width: int, r: Recipe, area: Tensor, ratio: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Uniform numbers area, ratio (B, TRIES), top, left (B,) -> (B, 4) top, left, height, width in whole pixels.

    Each sample takes the first of its boxes that fits into the image, or the whole image if none does.
    """
    pixels = height * width * (r.area[0] + (r.area[1] - r.area[0]) * area)
    aspect = r.ratio[0] * (r.ratio[1] / r.ratio[0]) ** ratio
    h, w = (pixels / aspect).sqrt().round(), (pixels * aspect).sqrt().round()
    fits = (h >= 1) & (h <= height) & (w >= 1) & (w <= width)
    first = fits.int().argmax(1, keepdim=True)
    some = fits.any(1)
    h, w = (torch.where(some, s.gather(1, first)[:, 0], float(n)) for s, n in ((h, height), (w, width)))
    return torch.stack([(top * (height - h + 1)).floor(), (left * (width - w + 1)).floor(), h, w], dim=1)


def resized_crop(x: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """x (B, 3, H, W), boxes (B, 4), flip (B,) bool -> each box at the size of x, bilinear, mirrored where `flip` is."""
    height, width = x.shape[2:]
    top, left, h, w = boxes.unbind(1)
    rows, columns = _positions(top, h, height), _positions(left, w, width)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), dim=3)  # (B, H, W, 2)
    return grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _positions(start: Tensor, length: Tensor, n: int) -> Tensor:
    """(B,), (B,) -> (B, n): where n pixels laid over [start, start + length) are read, as -1..1 over the image."""
    start, length = start[:, None], length[:, None]
    at = start + (torch.arange(n, device=start.device) + 0.5) * (length / n) - 0.5
    return (2 * at.clamp(start, start + length - 1) + 1) / n - 1


def adjust_brightness(x: Tensor, factor: Tensor) -> Tensor:
    """x (B, 3, H, W) in [0, 1], factor (B,) >= 0: towards black at 0, unchanged at 1. So for the next two."""
    return (x * factor[:, None, None, None]).clamp_(0, 1)


def adjust_contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Towards the image's mean grey level at 0."""
    factor = factor[:, None, None, None]
    mean = _grey(x).mean((1, 2, 3), keepdim=True)
    return (x * factor).add_((1 - factor) * mean).clamp_(0, 1)


def adjust_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Towards each pixel's grey level at 0."""
    return torch.lerp(_grey(x), x, factor[:, None, None, None]).clamp_(0, 1)


def adjust_hue(x: Tensor, shift: Tensor) -> Tensor:
    """x (B, 3, H, W) in [0, 1] with each hue turned by shift (B,), in turns.

    With d = max - min of a pixel's channels, its hue in sixths of a turn is h = 1 + (g + b - r - min) / d with the sign
    of g - b: red at 0, green at 2, blue at -2. Back from h in [0, 6), with t(c) = clamp(|h - c| - 1, 0, 1):
    r = min + d t(3), g = max - d t(2), b = max - d t(4). No pixel needs a branch, which is what makes it fast.
    """
    r, g, b = x.unbind(1)
    low, high = x.amin(1), x.amax(1)
    d = high - low
    h = (g + b).sub_(r).sub_(low).div_(d.clamp_min(1e-9)).add_(1)
    h = torch.copysign(h, g - b).add_(6 * shift[:, None, None])
    h.sub_((h / 6).floor_(), alpha=6)
    out = torch.empty_like(x)
    for channel, (base, sign, c) in enumerate(((low, 1, 3), (high, -1, 2), (high, -1, 4))):
        out[:, channel] = torch.addcmul(base, d, (h - c).abs_().sub_(1).clamp_(0, 1), value=sign)
    return out


def _grey(x: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, 1, H, W)."""
    return (x[:, :1] * LUMA[0]).add_(x[:, 1:2], alpha=LUMA[1]).add_(x[:, 2:], alpha=LUMA[2])


def _normalised(x: Tensor, r: Recipe) -> Tensor:
    mean, std = (torch.tensor(values).to(x.device, non_blocking=True)[:, None, None] for values in (r.mean, r.std))
    return (x - mean).div_(std)


def _unit(images: Tensor) -> Tensor:
    """uint8 (B, 3, H, W) -> float in [0, 1], one plane after the other whatever the order in memory was."""
    return images.to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def _checked(images: Tensor, recipe: str) -> Recipe:
    """The recipe of this name, once the images are seen to be what they should."""
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(f"images must be uint8 of shape (B, 3, H, W), not {images.dtype} {tuple(images.shape)}")
    return RECIPES[one_of("recipe", recipe, RECIPES)]
