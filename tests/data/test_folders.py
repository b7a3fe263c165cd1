"""Reading a folder <domain>/<class>/<image>."""

from pathlib import Path

import pytest

from hypo.data.folders import scan


def touch(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def test_labels_and_domains_are_those_of_each_path(tmp_path):
    listing = scan(touch(tmp_path, "sketch/dog/2.png", "photo/dog/b.JPG", "photo/cat/a.jpeg", "sketch/cat/1.webp"))
    assert listing.paths == ("photo/cat/a.jpeg", "photo/dog/b.JPG", "sketch/cat/1.webp", "sketch/dog/2.png")
    assert listing.class_names == ("cat", "dog") and listing.domain_names == ("photo", "sketch") and not listing.notes
    for path, label, domain in zip(listing.paths, listing.labels, listing.domains, strict=True):
        assert path.split("/")[:2] == [listing.domain_names[domain], listing.class_names[label]]
    assert listing.labels.dtype == listing.domains.dtype == "int64"


def test_what_is_hidden_or_no_image_is_skipped(tmp_path):
    kept = ("a/x/1.jpg", "a/y/1.jpg")
    skipped = (".git/x/1.jpg", "a/.x/1.jpg", "a/x/.1.jpg", "a/x/notes.txt", "a/x/Thumbs.db", "a/loose.jpg", "loose.jpg")
    assert scan(touch(tmp_path, *kept, *skipped)).paths == kept


def test_missing_and_empty_classes_are_noted_and_are_no_error(tmp_path):
    touch(tmp_path, "a/x/1.jpg", "a/y/1.jpg", "b/x/1.jpg", "a/x/deeper/2.jpg")
    for empty in ("b/y", "b/z", "hollow"):
        (tmp_path / empty).mkdir()
    listing = scan(tmp_path)
    assert listing.class_names == ("x", "y") and listing.domain_names == ("a", "b")
    assert listing.notes == (
        "domain b has no image of y",
        "no domain has an image of z, left out",
        "hollow held no image two folders down and is no domain",
        "folders inside a class folder are not read: a/x has some",
    )


def test_a_class_of_one_domain_only_is_in_the_union(tmp_path):
    listing = scan(touch(tmp_path, "a/x/1.jpg", "b/w/1.jpg"))
    assert listing.class_names == ("w", "x")
    assert listing.notes == ("domain a has no image of w", "domain b has no image of x")


def test_links_are_followed_and_a_dead_one_is_listed(tmp_path):
    elsewhere = touch(tmp_path / "elsewhere", "x/1.jpg", "y/1.jpg")
    root = touch(tmp_path / "root", "a/x/1.jpg")
    (root / "b").symlink_to(elsewhere, target_is_directory=True)
    (root / "a/x/dead.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (root / "a/up").symlink_to(root, target_is_directory=True)
    assert scan(root).paths == ("a/x/1.jpg", "a/x/dead.jpg", "b/x/1.jpg", "b/y/1.jpg")


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        (("x/1.jpg", "y/1.jpg"), "holds no image two folders down"),
        (("a/x/readme.txt",), "holds no image two folders down"),
        ((), "holds no image two folders down"),
        (("a/x/1.jpg", "b/x/1.jpg"), "holds only one class, x"),
    ],
)
def test_another_shape_is_refused_with_the_layout(tmp_path, files, wrong):
    with pytest.raises(ValueError, match=wrong) as error:
        scan(touch(tmp_path, *files))
    assert "<domain>/<class>/<image>" in str(error.value) and "\n" not in str(error.value)


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    for root in (tmp_path / "nothing", touch(tmp_path, "file") / "file"):
        with pytest.raises(ValueError, match="is not a folder"):
            scan(root)
