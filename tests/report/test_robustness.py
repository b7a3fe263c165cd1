"""Whether the main verdicts depend on single records."""

import pytest
from made import PACS
from made import run as made_run

from hypo import runs
from hypo.report import robustness
from hypo.training import verify


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """Twelve pairs of HYPO and ERM: HYPO is behind by about a point, by far more in the cell of the search."""
    for domain in PACS:
        for seed in range(3):
            lead = -0.1 if (domain, seed) == ("cartoon", 0) else -0.01 + 0.001 * seed
            made_run(tmp_path, "pacs", "erm", domain, "cpu", seed, ood=0.6)
            made_run(tmp_path, "pacs", "hypo", domain, "cpu", seed, ood=0.6 + lead)
    monkeypatch.setattr(verify, "log", lambda: tmp_path / "kept" / "verified.json")
    return runs.load(tmp_path)


def again(frame, accuracy):
    """Keep a re-run of HYPO with cartoon held out, seed 0."""
    (path,) = frame.query("held_out == 'cartoon' and algorithm == 'hypo' and seed == 0")["path"]
    verify.log().parent.mkdir(exist_ok=True)
    verify.keep(path, verify.Verdict(True, "", {"ood_accuracy": (0.5, accuracy)}, None, {}))


def rows(frame):
    shown = robustness.table(frame).frame
    return shown[shown["claim"].str.contains("ERM")].reset_index(drop=True)


def test_without_re_runs_their_case_is_that_of_the_records(frame):
    by_records, replaced, _ = rows(frame).itertuples()
    assert by_records.difference.startswith("−") and "at cpu scale with" in robustness.table(frame).caption
    assert replaced.difference == by_records.difference and replaced.runs == "with 0 runs replaced by re-runs"


def test_a_re_run_takes_the_place_of_its_record_and_of_no_other(frame):
    again(frame, 0.6 - 0.01)
    by_records, replaced, _ = rows(frame).itertuples()
    assert replaced.runs == "with 1 run replaced by re-runs" and replaced.pairs == by_records.pairs == 12
    numbers = robustness.table(frame).numbers.query("claim.str.contains('ERM')")["value"].tolist()
    assert numbers[1] - numbers[0] == pytest.approx(9 / 12)
    assert frame["validation.ood_accuracy"].min() == pytest.approx(0.5), "the frame itself is as it was"


def test_both_runs_of_the_cell_of_the_search_are_left_out(frame):
    by_records, _, without = rows(frame).itertuples()
    assert without.runs == "without 2 runs of the search" and (by_records.pairs, without.pairs) == (12, 11)
    assert (by_records.outcome, without.outcome) == ("inconclusive", "contradicted")


def test_the_sentence_says_which_verdict_changes(frame):
    tried = robustness.table(frame)
    said = robustness.in_words(tried)
    assert "is inconclusive by the records; it is contradicted without 2 runs of the search." in said
    assert "PCL on PACS” is not run by the records; it stays so in every case." in said
