"""README.md shows what the records say now."""

import re
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "book" / "extensions"))
import readme  # noqa: E402

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def alike(found: str, kept: str) -> bool:
    """The same words and counts; fractions may be one apart in their last digit, since processors round differently."""

    def close(a: str, b: str) -> bool:
        digits = [len(text.partition(".")[2]) for text in (a, b) if "." in text]
        return a == b or (bool(digits) and abs(float(a) - float(b)) < 1.01 * 10.0 ** -min(digits))

    return NUMBER.sub("0", found) == NUMBER.sub("0", kept) and all(
        map(close, NUMBER.findall(found), NUMBER.findall(kept))
    )


def test_the_committed_readme_is_what_the_records_make_it():
    for path, content in readme.generate().items():
        current = alike(content.decode(), path.read_text(encoding="utf-8"))
        assert current, f"{path.name} is stale: run `make readme` and commit what it changes"


def test_numbers_may_differ_in_the_last_digit_and_counts_may_not():
    assert alike("3 of 4 hold: +6.3 points", "3 of 4 hold: +6.2 points")
    assert not alike("3 of 4 hold: +6.3 points", "3 of 4 hold: +6.1 points")
    assert not alike("3 of 4 hold", "2 of 4 hold") and not alike("3 of 4 hold", "3 of 4 fail")


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
    assert re.match(r"Accuracy in percent on (PACS|the digits), \w+ scale, means over seeds: ", drawn.alt)
    assert b'fill="#ffffff"/>' in readme.on_white(drawn.images["light"])


def test_the_table_has_eight_claims_at_most():
    between = (TOP / "README.md").read_text().split(readme.BEGIN)[1].split(readme.END)[0]
    assert 1 <= sum(line.startswith("| [") for line in between.splitlines()) <= 8
