"""What a page shows of numbers, and what it gives away of them."""

import base64
import io
import re

import pandas as pd

from hypo.publish import Table


def saved(html: str) -> pd.DataFrame:
    (encoded,) = re.findall(r'href="data:text/csv;base64,([^"]+)"', html)
    return pd.read_csv(io.BytesIO(base64.b64decode(encoded)))


FRAME = pd.DataFrame({"style": ["a <b>", "[pacs](pacs.html)"], "accuracy": [81.257, float("nan")]})


def test_the_csv_of_a_table_has_every_digit():
    html = Table(FRAME, "styles")._repr_html_()
    assert 'download="styles.csv"' in html
    pd.testing.assert_frame_equal(saved(html), FRAME)
    wide = FRAME.assign(n=[3, 1])
    pd.testing.assert_frame_equal(saved(Table(FRAME, "styles", numbers=wide)._repr_html_()), wide)


def test_text_is_escaped_links_are_links_and_missing_numbers_are_empty():
    html = Table(FRAME, "styles", "in <percent>")._repr_html_()
    assert "a &lt;b&gt;" in html and "in &lt;percent&gt;" in html
    assert '<a href="pacs.html">pacs</a>' in html
    assert "<td>81.3</td>" in html and "<td></td>" in html


def test_records_behind_a_table_are_named_once_each():
    html = Table(FRAME, "styles", records=["b.json a.json", "a.json"])._repr_html_()
    assert "2 records" in html and "a.json<br>b.json" in html


def test_a_named_index_is_a_column_of_both():
    html = Table(FRAME.set_index("style"), "styles")._repr_html_()
    assert list(saved(html)) == ["style", "accuracy"]
    assert '<th class="text">style</th>' in html
