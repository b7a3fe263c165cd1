"""Numbers as text."""

import math

import pytest

from hypo.report.text import interval, number
from hypo.runs import Estimate


@pytest.mark.parametrize("value", [-0.02, -1e-9, 0.02, -3.14, 3.14, 1e-9])
def test_a_sign_is_that_of_the_number_however_it_is_rounded(value):
    assert number(value, sign=True)[0] == ("+" if value > 0 else "\N{MINUS SIGN}")


def test_zero_has_no_minus_sign_and_no_number_without_a_sign_rounds_to_one():
    assert number(-0.0, sign=True) == number(0.0, sign=True) == "+0.0"
    assert number(-0.02) == number(-0.0) == "0.0"
    assert number(math.nan, sign=True) == number(None) == ""


def test_an_interval_that_includes_zero_shows_both_signs():
    shown = interval(Estimate(2.8, 1.0, -0.02, 5.7, 12, 8), sign=True)
    assert shown == " [−0.0, +5.7]"
    assert interval(Estimate(2.8, 1.0, 0.02, 5.7, 12, 8), sign=True) == " [+0.0, +5.7]"
