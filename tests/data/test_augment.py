"""Each batched operation against torchvision's on single images, and what is drawn."""

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from hypo.data import augment as module
from hypo.data.augment import RECIPES, Recipe, augment, draw_boxes, normalise, resized_crop, step_generator

TOLERANCE = 1e-5  # of images in [0, 1]; a step of 8 bits is 4e-3


def random_images(b: int = 8, size: int = 24, seed: int = 0) -> torch.Tensor:
    """Float (B, 3, S, S): noise, with rows of pure, equal and grey colours where hue is at its edges."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(b, 3, size, size, generator=generator)
    x[:, :, :8] = torch.randint(0, 3, (b, 3, 8, size), generator=generator) / 2
    return x


def random_bytes(b: int = 8, size: int = 24) -> torch.Tensor:
    return torch.randint(0, 256, (b, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_colour_operations_match_torchvision(name, device):
    x = random_images()
    factor = torch.linspace(-0.5, 0.5, len(x)) if name == "hue" else torch.linspace(0, 2, len(x))
    ours = getattr(module, f"adjust_{name}")(x.to(device), factor.to(device)).cpu()
    theirs = torch.stack([getattr(F, f"adjust_{name}")(image, float(f)) for image, f in zip(x, factor, strict=True)])
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)
    assert ours.min() >= -1e-6 and ours.max() <= 1 + 1e-6


def test_crops_match_torchvision():
    x = random_images(b=6, size=20)
    boxes = torch.tensor(
        [[0, 0, 20, 20], [3, 0, 9, 17], [0, 5, 20, 15], [19, 19, 1, 1], [4, 4, 10, 10], [2, 1, 17, 19]]
    )
    flip = torch.tensor([False, True, False, True, True, False])
    for image, box, flipped, ours in zip(x, boxes.tolist(), flip, resized_crop(x, boxes.float(), flip), strict=True):
        theirs = F.resized_crop(
            image, *box, size=[20, 20], interpolation=v2.InterpolationMode.BILINEAR, antialias=False
        )
        torch.testing.assert_close(ours, F.horizontal_flip(theirs) if flipped else theirs, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("recipe", ["pacs", "cifar"])
def test_boxes_are_distributed_as_torchvisions(recipe):
    """Quantiles of height, width, top and left over 4,000 boxes, within 2 of 64 pixels."""
    r, n, size = RECIPES[recipe], 4000, 64
    area, ratio, top, left = (
        torch.rand(shape, generator=torch.Generator().manual_seed(i))
        for i, shape in enumerate([(n, 10), (n, 10), (n,), (n,)])
    )
    ours = draw_boxes(size, size, r, area, ratio, top, left)
    assert (ours[:, :2] >= 0).all() and (ours[:, 2:] >= 1).all() and (ours[:, :2] + ours[:, 2:] <= size).all()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = [
            v2.RandomResizedCrop(size, r.area, r.ratio).make_params([torch.empty(3, size, size)]) for _ in range(n)
        ]
    theirs = torch.tensor([[p["top"], p["left"], p["height"], p["width"]] for p in drawn]).float()
    at = torch.linspace(0.05, 0.95, 19)
    assert (ours.quantile(at, dim=0) - theirs.quantile(at, dim=0)).abs().max() <= 2


def test_a_sample_whose_boxes_never_fit_is_taken_whole():
    wide = Recipe(*module.HALF, area=(1.0, 1.0), ratio=(2.0, 2.0))
    assert draw_boxes(8, 8, wide, *torch.rand(2, 5, 10), *torch.rand(2, 5)).tolist() == [[0, 0, 8, 8]] * 5


def test_a_batch_is_the_chain_of_torchvisions_operations():
    """The whole "pacs" recipe, sample by sample, from the same random numbers."""
    images, r = random_bytes(16), RECIPES["pacs"]
    u = torch.rand(16, 29, generator=torch.Generator().manual_seed(5))
    boxes = draw_boxes(24, 24, r, u[:, :10], u[:, 10:20], u[:, 20], u[:, 21])
    expected = []
    for image, box, (flip, _, *factors, grey) in zip(images, boxes.int().tolist(), u[:, 22:].tolist(), strict=True):
        x = F.resized_crop(image / 255, *box, size=[24, 24], antialias=False)
        x = F.horizontal_flip(x) if flip < 0.5 else x
        b, c, s, h = (0.3 * (2 * f - 1) for f in factors)
        x = F.adjust_hue(F.adjust_saturation(F.adjust_contrast(F.adjust_brightness(x, 1 + b), 1 + c), 1 + s), h)
        x = F.rgb_to_grayscale(x, 3) if grey < 0.1 else x
        expected.append(F.normalize(x, r.mean, r.std))
    ours = augment(images, "pacs", torch.Generator().manual_seed(5))
    torch.testing.assert_close(ours, torch.stack(expected), atol=1e-4, rtol=0)
    assert ((u[:, -1] < 0.1).any(), (u[:, 22] < 0.5).any()) == (True, True)


def test_each_sample_has_its_own_parameters():
    ours = augment(random_bytes(1).expand(32, -1, -1, -1), "pacs", step_generator(0, 0, 0))
    assert len({tuple(image.flatten()[:50].tolist()) for image in ours}) == 32


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_repeats_whatever_came_before(recipe, layout, device):
    """Resumed at (epoch 3, step 7), on either device and in either memory layout, a run sees the same batch."""
    images = random_bytes()
    straight = [augment(images, recipe, step_generator(1, 3, step)) for step in range(8)][7]
    resumed = augment(images.to(device, memory_format=layout), recipe, step_generator(1, 3, 7)).cpu()
    same_kernels = device == "cpu" and layout == torch.contiguous_format  # others may round otherwise
    torch.testing.assert_close(resumed, straight, atol=0 if same_kernels else 1e-4, rtol=0)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_draws_as_many_numbers(recipe):
    generator, reference = step_generator(0, 0, 0), step_generator(0, 0, 0)
    augment(random_bytes(), recipe, generator)
    augment(random_bytes(), "none", reference)
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=reference))


def test_every_coordinate_of_a_step_gives_other_numbers():
    first = {tuple(torch.rand(4, generator=step_generator(*where)).tolist()) for where in np.ndindex(4, 4, 4, 4)}
    assert len(first) == 4**4


def test_probabilities_of_cifar_are_those_of_the_recipe():
    """Of 2,000 flat images: 1 in 5 grey, and 0.2 x 0.8 left with their own colour."""
    images = torch.tensor([200, 120, 40], dtype=torch.uint8).view(1, 3, 1, 1).expand(2000, 3, 8, 8)
    r = RECIPES["cifar"]
    out = augment(images, "cifar", step_generator(0, 0, 0)) * torch.tensor(r.std).view(3, 1, 1) + torch.tensor(
        r.mean
    ).view(3, 1, 1)
    colour = out.mean((2, 3))
    grey = (colour.amax(1) - colour.amin(1) < 1e-4).double().mean()
    untouched = ((colour * 255 - images[0, :, 0, 0]).abs().amax(1) < 0.05).double().mean()
    assert abs(grey - 0.2) < 0.03 and abs(untouched - 0.16) < 0.03


def test_digits_keep_their_colours_and_are_not_mirrored():
    """A bright left half stays on the left: every column's mean falls from left to right."""
    images = torch.zeros(64, 3, 32, 32, dtype=torch.uint8)
    images[..., :16] = torch.tensor([250, 130, 10], dtype=torch.uint8).view(3, 1, 1)
    out = augment(images, "digits", step_generator(0, 0, 0)) * 0.5 + 0.5
    assert (out[..., 1:] <= out[..., :-1] + 1e-5).all()
    torch.testing.assert_close(out[..., 0] * 255, images[..., 0].float(), atol=1e-2, rtol=0)
    edges = (out[:, 0, 0] > 0.49).sum(1)
    assert edges.min() >= 12 and edges.max() <= 20 and len(edges.unique()) > 2


def test_normalise_is_torchvisions_and_none_only_normalises():
    images = random_bytes()
    for name, r in RECIPES.items():
        expected = F.normalize(images / 255, r.mean, r.std)
        torch.testing.assert_close(normalise(images, name), expected)
    plain = augment(images, "none", step_generator(0, 0, 0))
    torch.testing.assert_close(plain, normalise(images, "none"), atol=1e-4, rtol=0)


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"did you mean '?pacs"):
        augment(random_bytes(), "pasc", step_generator(0, 0, 0))
    for images in (random_bytes().float(), random_bytes()[0], random_bytes().permute(0, 2, 3, 1)):
        with pytest.raises(ValueError, match=r"images must be uint8 of shape \(B, 3, H, W\)"):
            normalise(images, "pacs")
