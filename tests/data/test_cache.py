"""Decoding once: the pixels, the cache's validity, and what happens when something breaks."""

import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms.v2 import functional as F

from hypo.data import cache
from hypo.data.cache import decode, load_image
from hypo.data.folders import scan
from hypo.data.imageset import content_fingerprint


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    """A smooth random picture."""
    noise = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def root(tmp_path) -> Path:
    """Two domains, two classes, three images each."""
    for i, cell in enumerate(("a/x", "a/y", "b/x", "b/y")):
        folder = tmp_path / "set" / cell
        folder.mkdir(parents=True)
        for j in range(3):
            picture(20 + j, 30, seed=10 * i + j).save(folder / f"{j}.png")
    return tmp_path / "set"


def same(a, b) -> bool:
    return np.array_equal(a.images, b.images) and np.array_equal(a.labels, b.labels) and a.fingerprint == b.fingerprint


def files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


# -- pixels


def test_pixels_are_those_of_torchvisions_resize(root, tmp_path):
    listing = scan(root)
    images = decode(listing, 16, tmp_path / "cache")
    for path, row in zip(listing.paths, images.images, strict=True):
        expected = F.resize(Image.open(root / path), [16, 16], antialias=True)
        assert np.array_equal(row, np.asarray(expected))
    assert images.name == "set" and images.notes == ()
    assert np.array_equal(images.labels, listing.labels) and np.array_equal(images.domains, listing.domains)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    original = picture(24, 24).convert(mode)
    original.save(path, quality=100)
    expected = np.asarray(original.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(load_image(path, 8) - expected).max() <= (8 if mode == "CMYK" else 0)


def test_a_palette_with_transparency_warns_of_nothing(tmp_path):
    picture(24, 24).quantize(16).save(tmp_path / "a.png", transparency=bytes(range(16)))
    assert load_image(tmp_path / "a.png", 8).shape == (8, 8, 3)


def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path):
    Image.fromarray(np.full((9, 9), 128 << 8, np.uint16)).save(tmp_path / "a.png")
    assert (load_image(tmp_path / "a.png", 4) == 128).all()


def test_an_exif_rotated_image_comes_out_upright(tmp_path):
    upright = picture(32, 32)
    exif = Image.Exif()
    exif[0x0112] = 6  # stored a quarter turn to the left of how it is to be seen
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(load_image(tmp_path / "a.png", 32), np.asarray(upright))


def test_a_large_jpeg_is_decoded_small_with_hardly_a_difference(tmp_path):
    large = picture(1024, 1024)
    large.save(tmp_path / "a.jpg", quality=95)
    expected = np.asarray(large.resize((32, 32), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(load_image(tmp_path / "a.jpg", 32) - expected).max() <= 4


# -- validity


def test_the_second_call_maps_the_file_and_decodes_nothing(root, tmp_path, monkeypatch):
    first = decode(scan(root), 8, tmp_path / "cache")
    monkeypatch.setattr(cache, "load_image", lambda *_, **__: pytest.fail("decoded again"))
    second = decode(scan(root), 8, tmp_path / "cache")
    assert isinstance(second.images, np.memmap) and not second.images.flags.writeable and same(first, second)


def test_the_fingerprint_is_that_of_the_content(root, tmp_path):
    s = decode(scan(root), 8, tmp_path / "cache")
    content = [np.array(s.images), s.labels, s.domains, s.class_names, s.domain_names]
    assert s.fingerprint == content_fingerprint(*content)
    pixel = content[0].copy()
    pixel[3, 1, 2, 0] ^= 1
    changed = (pixel, s.labels[::-1], 1 - s.domains, ("x", "z"), ("a", "c"))
    prints = {content_fingerprint(*content[:i], new, *content[i + 1 :]) for i, new in enumerate(changed)}
    assert len(prints | {s.fingerprint}) == 6
    assert decode(scan(root), 9, tmp_path / "cache").fingerprint != s.fingerprint


def test_a_listing_with_other_names_shares_the_cache_and_not_the_fingerprint(root, tmp_path):
    first = decode(scan(root), 8, tmp_path / "cache")
    renamed = replace(scan(root), domain_names=("photo", "sketch"), labels=1 - scan(root).labels)
    for images in (decode(renamed, 8, tmp_path / "cache"), decode(renamed, 8, tmp_path / "new")):
        content = (images.images, 1 - first.labels, first.domains, first.class_names, ("photo", "sketch"))
        assert images.fingerprint == content_fingerprint(*content) != first.fingerprint
    assert files(tmp_path / "cache").count(".npy") == 1


@pytest.mark.parametrize("change", ["pixels", "mtime", "name", "more", "fewer"])
def test_a_changed_source_makes_a_new_cache_and_removes_the_old(root, tmp_path, change):
    before = decode(scan(root), 8, tmp_path / "cache")
    other = decode(scan(root), 9, tmp_path / "cache")
    old = set((tmp_path / "cache").glob("*-8px-*"))
    one = root / "a/x/0.png"
    match change:
        case "pixels":
            picture(50, 50, seed=99).save(one)
        case "mtime":
            os.utime(one, ns=(0, one.stat().st_mtime_ns + 1))
        case "name":
            one.rename(one.with_name("zero.png"))
        case "more":
            shutil.copy(one, one.with_name("3.png"))
        case "fewer":
            one.unlink()
    after = decode(scan(root), 8, tmp_path / "cache")
    assert len(after) == 12 + (change == "more") - (change == "fewer")
    assert (after.fingerprint == before.fingerprint) == (change == "mtime")
    assert len(old) == 2 and not old & set((tmp_path / "cache").iterdir())
    assert files(tmp_path / "cache") == [".json", ".json", ".npy", ".npy"]
    assert other.images.shape == (12, 9, 9, 3)


def test_two_folders_of_one_name_do_not_remove_each_others_cache(root, tmp_path):
    shutil.copytree(root, tmp_path / "other" / "set")
    for folder in (root, tmp_path / "other" / "set"):
        picture(9, 9, seed=len(str(folder))).save(folder / "a/x/0.png")
        decode(scan(folder), 8, tmp_path / "cache")
    assert files(tmp_path / "cache").count(".npy") == 2


@pytest.mark.parametrize("damage", ["truncated", "empty", "gone", "other shape", "no json", "old json", "no object"])
def test_a_damaged_cache_is_built_anew(root, tmp_path, damage):
    before = decode(scan(root), 8, tmp_path / "cache")
    pixels = np.array(before.images)
    (array,), (meta,) = (list((tmp_path / "cache").glob(f"*.{suffix}")) for suffix in ("npy", "json"))
    match damage:
        case "truncated":
            os.truncate(array, array.stat().st_size - 1)
        case "empty":
            os.truncate(array, 0)
        case "gone":
            array.unlink()
        case "other shape":
            np.save(array, pixels[:5])
        case "no json":
            meta.unlink()
        case "old json":
            meta.write_text(json.dumps({"format": 0}))
        case "no object":
            meta.write_text("[]")
    (tmp_path / "cache" / f".{array.name}.1.tmp").write_bytes(b"left by a killed build")
    after = decode(scan(root), 8, tmp_path / "cache")
    assert np.array_equal(after.images, pixels) and after.fingerprint == before.fingerprint
    assert files(tmp_path / "cache") == [".json", ".npy"]


# -- faults


def test_broken_images_are_named_counted_and_skipped(root, tmp_path):
    whole = decode(scan(root), 8, tmp_path / "whole")
    picture(64, 64).save(root / "a/x/truncated.jpg")
    os.truncate(root / "a/x/truncated.jpg", 500)
    (root / "b/y/text.png").write_text("not an image")
    (root / "b/y/dead.png").symlink_to(tmp_path / "nowhere.png")
    for _ in ("built", "read"):
        images = decode(scan(root), 8, tmp_path / "cache")
        assert images.notes == ("3 unreadable images skipped: a/x/truncated.jpg, b/y/dead.png, b/y/text.png",)
        assert same(images, whole) and isinstance(images.images, np.memmap)


def test_a_note_names_the_first_few_only(root, tmp_path):
    for i in range(7):
        (root / f"a/x/z{i}.png").touch()
    (note,) = decode(scan(root), 8, tmp_path / "cache").notes
    assert note.startswith("7 unreadable images skipped: a/x/z0.png") and note.endswith("a/x/z4.png and 2 more")


def test_only_broken_images_is_an_error_that_leaves_nothing(tmp_path):
    for cell in ("a/x", "a/y"):
        (tmp_path / "set" / cell).mkdir(parents=True)
        (tmp_path / "set" / cell / "0.jpg").touch()
    with pytest.raises(ValueError, match=r"none of the 2 images under .* can be decoded, the first is a/x/0\.jpg"):
        decode(scan(tmp_path / "set"), 8, tmp_path / "cache")
    assert files(tmp_path / "cache") == []


def test_an_unwritable_cache_is_one_sentence_and_the_same_set(root, tmp_path):
    (root / "a/x/broken.png").touch()
    expected = decode(scan(root), 8, tmp_path / "cache")
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match=r"cannot be written \(Not a directory\)") as caught:
        images = decode(scan(root), 8, tmp_path / "file" / "cache")
    assert len(caught) == 1 and same(images, expected) and images.notes == expected.notes


def test_a_disk_that_fills_up_is_one_sentence_and_leaves_no_half_file(root, tmp_path):
    expected = decode(scan(root), 64, tmp_path / "cache")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match=r"cannot be written \(File too large\)"):
            images = decode(scan(root), 64, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert same(images, expected) and files(tmp_path / "full") == []


def test_a_disk_too_small_is_known_before_decoding(root, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        images = decode(scan(root), 8, tmp_path / "cache")
    assert len(images) == 12


def test_a_size_below_one_pixel_is_refused(root, tmp_path):
    with pytest.raises(ValueError, match="size must be at least 1"):
        decode(scan(root), 0, tmp_path / "cache")


def test_two_processes_build_once_and_get_the_same(root, tmp_path, monkeypatch):
    """Another process is made to wait for the lock; when it falls, that process and this one race for it."""
    program = (
        "import sys; from pathlib import Path; from hypo.data import cache, folders; load = cache.load_image\n"
        "def counted(*a, **k): print('decoded'); return load(*a, **k)\n"
        "cache.load_image = counted\n"
        "print(cache.decode(folders.scan(Path(sys.argv[1])), 8, Path(sys.argv[2]), workers=1).fingerprint)\n"
    )
    folder = tmp_path / "cache"
    expected = decode(scan(root), 8, folder).fingerprint
    next(folder.glob("*.json")).unlink()
    here = []
    monkeypatch.setattr(cache, "load_image", lambda *a, **k: here.append(a) or load_image(*a, **k))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    stem = next(folder.glob("*.npy")).stem.rpartition("-")[0]
    with (folder / f"{stem}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = subprocess.Popen([sys.executable, "-c", program, str(root), str(folder)], **pipes)
        assert "another process is building" in other.stderr.readline()
    images = decode(scan(root), 8, folder)
    out, err = other.communicate()
    assert images.fingerprint == out.splitlines()[-1] == expected
    assert sorted([len(here), out.count("decoded")]) == [0, 12]
    assert err == ""  # no progress bar where there is no terminal


def test_memory_stays_below_the_array(root, tmp_path):
    for i in range(3, 33):
        shutil.copy(root / "a/x/0.png", root / f"a/x/{i}.png")
    tracemalloc.start()
    images = decode(scan(root), 512, tmp_path / "cache", workers=1).images
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert images.nbytes == 42 * 512 * 512 * 3 and peak < images.nbytes / 2
