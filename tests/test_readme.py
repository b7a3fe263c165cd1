"""README.md shows what the records say now."""

import re
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "book" / "extensions"))
import readme  # noqa: E402


def test_the_committed_readme_is_what_the_records_make_it():
    for path, content in readme.generate().items():
        assert path.read_bytes() == content, f"{path.name} is stale: run `make readme` and commit what it changes"


def test_only_what_is_between_the_markers_changes():
    text = f"before\n{readme.BEGIN}\nold \\1\n{readme.END}\nafter\n"
    once = readme.written(text, "new \\1 text")
    assert once == f"before\n{readme.BEGIN}\nnew \\1 text\n{readme.END}\nafter\n"
    assert readme.written(once, "new \\1 text") == once


@pytest.mark.parametrize("text", ["", readme.BEGIN, f"{readme.END}\n{readme.BEGIN}"])
def test_a_readme_without_markers_is_refused(text):
    with pytest.raises(ValueError, match=r"README\.md must hold <!-- claims:begin -->"):
        readme.written(text, "")


def test_links_and_the_picture_are_in_the_repository():
    text = (TOP / "README.md").read_text()
    between = text.split(readme.BEGIN)[1].split(readme.END)[0]
    targets = re.findall(r"\]\(([^)]+)\)", between)
    assert readme.PICTURE.as_posix() in targets
    assert [target for target in targets if not (TOP / target).exists()] == []


def test_the_picture_says_in_words_what_it_shows_and_has_a_ground_of_its_own():
    drawn = readme.picture()
    assert drawn.alt.startswith("Accuracy in percent on held-out styles of the digits")
    assert "fill: #ffffff" in drawn.images["light"].decode()
