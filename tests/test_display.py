"""What a page shows of numbers, and what it gives away of them."""

import base64
import io
import re

import pandas as pd
import pytest

from hypo.display import banner, inline, show
from hypo.report.table import PAPER, Table
from hypo.runs import Origin


def saved(html: str) -> pd.DataFrame:
    (encoded,) = re.findall(r'href="data:text/csv;base64,([^"]+)"', html)
    return pd.read_csv(io.BytesIO(base64.b64decode(encoded)))


A, B = Origin("a.json", "pacs"), Origin("b.json", "digits")
FRAME = pd.DataFrame({"style": ["a <b>", "[pacs](pacs.html)"], "accuracy": [81.257, float("nan")]})


def test_the_csv_of_a_table_has_every_digit():
    html = show(FRAME, "styles")._repr_html_()
    assert 'download="styles.csv"' in html
    pd.testing.assert_frame_equal(saved(html), FRAME)
    wide = FRAME.assign(n=[3, 1])
    pd.testing.assert_frame_equal(saved(show(FRAME, "styles", numbers=wide)._repr_html_()), wide)


def test_text_is_escaped_links_are_links_and_missing_numbers_are_empty():
    html = show(FRAME, "styles", "in <percent>")._repr_html_()
    assert "a &lt;b&gt;" in html and "in &lt;percent&gt;" in html
    assert '<a href="pacs.html">pacs</a>' in html
    assert "<td>81.3</td>" in html and "<td></td>" in html


def test_records_behind_a_table_are_named_once_each():
    html = show(FRAME, "styles", records=[(B, A), (A,)])._repr_html_()
    assert "2 records" in html and "a.json<br>b.json" in html


def test_a_named_index_is_a_column_of_both():
    html = show(FRAME.set_index("style"), "styles")._repr_html_()
    assert list(saved(html)) == ["style", "accuracy"]
    assert '<th class="text">style</th>' in html


def test_a_sentence_has_code_and_is_escaped():
    assert show("1 < 2, see `hypo data`")._repr_html_() == (
        '<p class="tex2jax_ignore mathjax_ignore">1 &lt; 2, see <code>hypo data</code></p>'
    )


def test_a_cell_may_have_two_lines_and_negative_numbers_have_a_minus_sign():
    html = show(pd.DataFrame({"a": ["1.0\n1 of 3 failed to train"], "b": [-0.5]}), "t")._repr_html_()
    assert "1.0<br>1 of 3 failed to train" in html and "\N{MINUS SIGN}0.5" in html


def test_badges_follow_from_the_records_and_from_what_is_said():
    html = show(Table(FRAME, "styles", records=[(B,)]))._repr_html_()
    assert '<caption><span class="hypo-badge">digits</span></caption>' in html
    assert Table(FRAME, "t", records=[(Origin("digits-a.json", "pacs"), B)], also=(PAPER,)).about == (
        PAPER,
        "real data",
        "digits",
    )
    assert Table(FRAME, "t").about == ()
    assert '<span class="hypo-badge">not run</span> what' in show(FRAME, "t", "what")._repr_html_()


def test_an_outcome_has_a_word_a_shape_and_its_colour():
    html = show(pd.DataFrame({"outcome": ["supported", "not run"]}), "t")._repr_html_()
    assert '<span class="hypo-verdict" data-outcome="supported">▲ supported</span>' in html and "○ not run" in html


def test_a_banner_has_a_line_for_each_thing_it_says():
    assert banner("**demo scale**: a < b", "why") == (
        '<div class="hypo-banner tex2jax_ignore mathjax_ignore"><strong>demo scale</strong>: a &lt; b<br>why</div>'
    )


@pytest.mark.parametrize("to", ["claims.html", "claims.html#pacs-erm", "#erm"])
def test_a_link_leads_to_a_page_or_a_place_on_it(to):
    assert inline(f"see [it]({to})") == f'see <a href="{to}">it</a>'


@pytest.mark.parametrize("to", ["javascript:alert(1)", "https://a.b", "#a b", "../a.html", "//a.html"])
def test_no_other_link_is_made(to):
    assert "<a" not in inline(f"see [it]({to})")


def test_a_count_alone_in_its_cell_is_not_broken():
    html = show(pd.DataFrame({"failed": ["3 of 5"], "runs": ["in 3 of 5 runs"]}), "counts")._repr_html_()
    assert '<td class="text">3\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}5</td>' in html and "in 3 of 5 runs" in html


def test_a_setting_is_broken_after_its_sign_and_a_link_is_left_alone():
    shown = show(
        Table(pd.DataFrame({"a": ["momentum=0.5, [all](claims.html)", "0.3 ± 0.1 [−1.0, +2.0]"]}), "t")
    )._repr_html_()
    assert "momentum=<wbr>0.5" in shown and 'href="claims.html"' in shown
    assert "0.3\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.1 [−1.0,\N{NO-BREAK SPACE}+2.0]" in shown
