"""The registry's facts, where a benchmark is found, and what is read from each form of it."""

import dataclasses
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hypo.data import benchmarks, cifar
from hypo.data.benchmarks import REGISTRY, SYNSETS, corrupted, data_root, load, locate
from hypo.data.corruptions import corrupt
from hypo.data.download import DownloadError
from hypo.data.prepare import prepare

RNG = np.random.default_rng(0)


def picture(colour: int = 0, size: int = 8) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size), (colour, 90, 30)).save(file, "PNG")
    return file.getvalue()


def grow(folder: Path, domains: tuple[str, ...], classes: tuple[str, ...], n: int = 1) -> Path:
    """n images for each domain and class, each of its own colour."""
    for d, domain in enumerate(domains):
        for c, label in enumerate(classes):
            (folder / domain / label).mkdir(parents=True)
            for i in range(n):
                (folder / domain / label / f"{i}.png").write_bytes(picture(50 * d + 10 * c + i))
    return folder


def test_published_counts_agree_with_each_other():
    for name, spec in REGISTRY.items():
        for folder, per_class in spec.class_counts.items():
            assert len(per_class) == spec.num_classes, name
            assert spec.counts.get(folder, sum(per_class)) == sum(per_class), (name, folder)
        if spec.counts:
            assert set(spec.counts) == set(spec.domains)
            assert sum(spec.counts.values()) == spec.images
    assert sum(map(sum, REGISTRY["cifar10"].class_counts.values())) == 60_000


def test_imagenet100_is_a_list_of_100_synsets():
    assert len(set(SYNSETS)) == 100 and list(SYNSETS) == sorted(SYNSETS)
    assert all(len(s) == 9 and s[0] == "n" and s[1:].isdigit() for s in SYNSETS)


def test_the_root_is_the_argument_else_the_variable_else_the_working_copy(monkeypatch, tmp_path):
    monkeypatch.setenv("HYPO_DATA", str(tmp_path))
    assert data_root("here") == Path("here")
    assert data_root() == tmp_path
    monkeypatch.setenv("HYPO_DATA", "")
    assert data_root() == Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("folder", ["PACS", "pacs", "PACS/kfold"])
def test_the_usual_folder_names_are_accepted_by_root_and_by_variable(tmp_path, monkeypatch, folder):
    grow(tmp_path / folder, REGISTRY["pacs"].domains, ("dog", "horse"))
    assert locate("pacs", tmp_path).samefile(tmp_path / folder)
    by_root = load("pacs", size=4, root=tmp_path)
    monkeypatch.setenv("HYPO_DATA", str(tmp_path))
    assert load("pacs", size=4).fingerprint == by_root.fingerprint
    assert by_root.name == "pacs" and by_root.domain_names == REGISTRY["pacs"].domains
    assert by_root.images[0, 0, 0].tolist() == [0, 90, 30]  # art_painting/dog/0.png


def test_a_benchmark_that_lacks_a_domain_is_absent(tmp_path):
    grow(tmp_path / "PACS", ("photo", "sketch"), ("dog", "horse"))
    assert locate("pacs", tmp_path) is None
    with pytest.raises(
        ValueError, match=r"run `hypo data pacs`, or make .*/PACS/<domain>/<class>/<image> by hand from https"
    ):
        load("pacs", root=tmp_path)


def test_domains_have_the_registrys_names_and_strays_are_left_out(tmp_path):
    folder = grow(tmp_path / "OfficeHomeDataset_10072016", ("Art", "Clipart", "Product", "Real World"), ("Bed", "Fan"))
    grow(folder, ("stray",), ("Bike",))
    images = load("office_home", size=4, root=tmp_path)
    assert images.domain_names == REGISTRY["office_home"].domains and images.class_names == ("Bed", "Fan")
    assert len(images) == 8


def test_any_folder_is_a_benchmark_by_its_path(tmp_path):
    folder = grow(tmp_path / "mine", ("indoors", "outdoors"), ("cat", "dog"))
    images = load(folder, size=4, root=tmp_path / "root")
    assert (images.name, images.domain_names, len(images)) == ("mine", ("indoors", "outdoors"), 4)
    assert (tmp_path / "root" / "cache").is_dir()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pasc", "unknown benchmark 'pasc': did you mean pacs"),
        ("no/folder", "no/folder is not a folder"),
        ("cifar10c", "for testing only"),
    ],
)
def test_what_cannot_be_loaded_says_why(name, says):
    with pytest.raises(ValueError, match=says):
        load(name)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_digits_are_always_there_at_32_pixels(digits):
    assert digits.images.shape == (7188, 32, 32, 3)
    with pytest.raises(ValueError, match="digits is 32 pixels wide, not 64"):
        load("digits", size=64)


@pytest.fixture(scope="module")
def small_cifar() -> dict[str, np.ndarray]:
    """CIFAR-10 with 4 images in a training batch and 10 to test."""
    return {
        "train_images": RNG.integers(0, 256, (20, 32, 32, 3), np.uint8),
        "train_labels": np.arange(20) % 10,
        "test_images": RNG.integers(0, 256, (10, 32, 32, 3), np.uint8),
        "test_labels": np.arange(10)[::-1],
    }


def batches(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """The files of cifar-10-batches-py: pickled dicts of planes (N, 3072) and a list of labels, keys as bytes."""

    def batch(split: str, at: slice) -> bytes:
        planes = arrays[f"{split}_images"][at].transpose(0, 3, 1, 2).reshape(-1, 3072)
        return pickle.dumps({b"data": planes, b"labels": arrays[f"{split}_labels"][at].tolist()}, protocol=3)

    train = {f"data_batch_{i + 1}": batch("train", slice(4 * i, 4 * i + 4)) for i in range(5)}
    return train | {"test_batch": batch("test", slice(None))}


def test_cifar10_is_the_same_from_arrays_batches_and_the_archive(tmp_path, small_cifar):
    for stem, array in small_cifar.items():
        (tmp_path / "1" / "cifar10").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "1" / "cifar10" / f"{stem}.npy", array)
    extracted = tmp_path / "2" / "cifar-10-batches-py"
    extracted.mkdir(parents=True)
    (tmp_path / "3" / "cifar10").mkdir(parents=True)
    with tarfile.open(tmp_path / "3" / "cifar10" / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name, content in batches(small_cifar).items():
            (extracted / name).write_bytes(content)
            archive.add(extracted / name, f"cifar-10-batches-py/{name}")
    sets = [load("cifar10", root=tmp_path / form) for form in "123"]
    assert len({s.fingerprint for s in sets}) == 1
    for images in sets:
        np.testing.assert_array_equal(images.images[images.test_only], small_cifar["test_images"])
        np.testing.assert_array_equal(images.images[~images.test_only], small_cifar["train_images"])
        assert images.labels.tolist() == [*small_cifar["train_labels"], *small_cifar["test_labels"]]
        assert images.domain_names == ("clean",)


def test_a_python_2_pickle_of_an_array_is_read():
    """Protocol 2 with numpy's old module name, as in the published archive."""
    pickled = pickle.dumps(np.arange(3, dtype=np.uint8), protocol=3).replace(b"numpy._core", b"numpy.core")
    assert cifar._ArraysOnly(io.BytesIO(pickled), encoding="bytes").load().tolist() == [0, 1, 2]


def test_a_pickle_that_would_run_code_is_refused(tmp_path, small_cifar):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name, content in batches(small_cifar).items():
        (folder / name).write_bytes(content)
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": Trap()}))
    with pytest.raises(ValueError, match=r"name .*, which is no array: delete them"):
        load("cifar10", root=tmp_path)
    assert not (tmp_path / "ran").exists()
    arrays = tmp_path / "arrays" / "cifar10"
    arrays.mkdir(parents=True)
    for stem in cifar.ARRAYS:
        np.save(arrays / f"{stem}.npy", np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a readable array"):
        load("cifar10", root=tmp_path / "arrays")
    assert not (tmp_path / "ran").exists()


def test_corrupted_cifar10_is_published_when_it_can_be_and_says_so(tmp_path, small_cifar):
    for stem, array in small_cifar.items():
        (tmp_path / "cifar10").mkdir(exist_ok=True)
        np.save(tmp_path / "cifar10" / f"{stem}.npy", array)
    images, labels, source = corrupted("cifar10", "gaussian_noise", 3, tmp_path)
    assert source == "generated"
    np.testing.assert_array_equal(images, corrupt(small_cifar["test_images"], "gaussian_noise", 3, seed=0))
    np.testing.assert_array_equal(labels, small_cifar["test_labels"])
    published = tmp_path / "CIFAR-10-C"
    published.mkdir()
    file = np.lib.format.open_memmap(published / "fog.npy", "w+", np.uint8, (50_000, 32, 32, 3))
    file[:, 0, 0, 0] = np.repeat(np.arange(1, 6), 10_000)  # each image marked with its severity
    file.flush()
    np.save(published / "labels.npy", np.tile(np.arange(10_000) % 10, 5))
    for name in ("cifar10", "cifar10c"):
        images, labels, source = corrupted(name, "fog", 4, tmp_path)
        assert source == "published" and images.shape == (10_000, 32, 32, 3) and labels.dtype == np.int64
        assert (images[:, 0, 0, 0] == 4).all() and labels[:11].tolist() == [*range(10), 0]
    assert corrupted("cifar10", "gaussian_noise", 3, tmp_path)[2] == "generated"
    np.save(published / "fog.npy", np.zeros((5, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match="must be uint8"):
        corrupted("cifar10", "fog", 1, tmp_path)


def test_corrupted_digits_are_the_test_images_of_a_domain(digits):
    clean = digits
    at = clean.test_only & (clean.domains == clean.domain_names.index("sketch"))
    images, labels, source = corrupted("digits", "contrast", 5, images=clean, domain="sketch")
    assert source == "generated"
    np.testing.assert_array_equal(images, corrupt(clean.images[at], "contrast", 5, seed=0))
    np.testing.assert_array_equal(labels, clean.labels[at])
    assert len(corrupted("digits", "contrast", 5, images=clean)[1]) == clean.test_only.sum()
    with pytest.raises(ValueError, match="unknown domain 'skech': did you mean sketch"):
        corrupted("digits", "contrast", 5, images=clean, domain="skech")
    with pytest.raises(ValueError, match="unknown corruption 'contrat': did you mean contrast"):
        corrupted("digits", "contrat", 5)
    with pytest.raises(ValueError, match="severity must be 1, 2, 3, 4 or 5, not 6"):
        corrupted("digits", "contrast", 6)


def test_pacs_put_by_hand_as_an_archive_is_laid_out(tmp_path):
    (tmp_path / "downloads").mkdir()
    with zipfile.ZipFile(tmp_path / "downloads" / "PACS.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
        for domain in REGISTRY["pacs"].domains:
            for label in ("dog", "horse"):
                archive.writestr(f"kfold/{domain}/{label}/pic_1.png", picture())
    assert "pacs is at" in prepare("pacs", tmp_path)
    assert {p.name for p in (tmp_path / "PACS").iterdir()} == {*REGISTRY["pacs"].domains}
    assert len(load("pacs", size=4, root=tmp_path)) == 8
    assert "already at" in prepare("pacs", tmp_path)


def test_an_archive_put_by_hand_is_checked(tmp_path):
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "VLCS.tar.gz").write_bytes(b"something else")
    with pytest.raises(DownloadError, match=r"VLCS.tar.gz has the checksum .* instead of the published 8870171e"):
        prepare("vlcs", tmp_path)
    assert not (tmp_path / "VLCS").exists()


def test_terra_incognita_is_laid_out_from_images_and_annotations(tmp_path):
    files = [("a.jpg", 38), ("b.jpg", "43"), ("c.jpg", 46), ("d.jpg", 100), ("e.jpg", 7), ("f.jpg", 38)]
    seen = [("a", 1), ("a", 1), ("a", 2), ("b", 2), ("c", 3), ("d", 1), ("e", 1), ("f", 9)]
    content = {
        "categories": [
            {"id": 1, "name": "cat"},
            {"id": 2, "name": "dog"},
            {"id": 3, "name": "empty"},
            {"id": 9, "name": "car"},
        ],
        "images": [{"id": name[0], "file_name": name, "location": place} for name, place in files],
        "annotations": [{"image_id": image, "category_id": category} for image, category in seen],
    }
    (tmp_path / "downloads").mkdir()
    members = {"eccv_18_annotation_files/train_annotations.json": json.dumps(content).encode()}
    images = {f"eccv_18_all_images_sm/{name}": name.encode() for name, _ in files}
    for file, inside in (("eccv_18_annotations.tar.gz", members), ("eccv_18_all_images_sm.tar.gz", images)):
        with tarfile.open(tmp_path / "downloads" / file, "w:gz") as archive:
            for name, data in inside.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    prepare("terra_incognita", tmp_path)
    made = tmp_path / "terra_incognita"
    assert {p.relative_to(made).as_posix() for p in made.rglob("*.jpg")} == {
        "location_38/cat/a.jpg",
        "location_38/dog/a.jpg",
        "location_43/dog/b.jpg",
        "location_46/empty/c.jpg",
        "location_100/cat/d.jpg",
    }
    assert (made / "location_38/dog/a.jpg").read_bytes() == b"a.jpg"


def test_imagenet100_is_taken_from_an_imagenet_folder(tmp_path):
    source = grow(tmp_path / "imagenet", ("train", "val"), (*SYNSETS, "n00000000"))
    root = tmp_path / "root"
    with pytest.raises(ValueError, match=r"hypo data imagenet100 --from PATH"):
        prepare("imagenet100", root)
    prepare("imagenet100", root, source)
    images = load("imagenet100", size=4, root=root)
    assert images.class_names == SYNSETS and images.domain_names == ("clean",) and images.test_only.sum() == 100
    assert len(images) == 200
    (source / "val" / SYNSETS[7] / "0.png").unlink()
    (source / "val" / SYNSETS[7]).rmdir()
    with pytest.raises(
        ValueError, match=f"lacks 1 of the 200 folders of imagenet100, the first being val/{SYNSETS[7]}"
    ):
        prepare("imagenet100", tmp_path / "other", source)
    assert not (tmp_path / "other").exists()


def test_imagenet100c_is_published_or_generated_with_its_own_constants(tmp_path):
    root = tmp_path / "root"
    prepare("imagenet100", root, grow(tmp_path / "imagenet", ("train", "val"), SYNSETS))
    clean = load("imagenet100", size=64, root=root)
    grey = np.full_like(clean.images, 128)
    for severity, sigma in zip(range(1, 4), benchmarks.IMAGENET_C_GAUSSIAN, strict=False):
        noisy, labels, source = corrupted(
            "imagenet100", "gaussian_noise", severity, root, dataclasses.replace(clean, images=grey)
        )
        assert source == "generated" and labels.tolist() == list(range(100))
        assert noisy.std() / 255 == pytest.approx(sigma, rel=0.02)
    grow(tmp_path / "imagenet-c" / "gaussian_noise", tuple("12345"), SYNSETS)
    prepare("imagenet100c", root, tmp_path / "imagenet-c")
    noisy, labels, source = corrupted("imagenet100c", "gaussian_noise", 3, root, clean)
    assert source == "published" and noisy.shape == (100, 64, 64, 3) and labels.tolist() == list(range(100))
    with pytest.raises(ValueError, match="valid are gaussian_noise"):
        corrupted("imagenet100c", "fog", 3, root)
