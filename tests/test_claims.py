"""Every rule on records made for the purpose, with known answers; the file of claims; the checks."""

import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import unit
from made import PACS, arrays
from made import run as made_run
from scipy import stats

from hypo import records, runs
from hypo.algorithms import method
from hypo.claims import OUTCOMES, checks, load, on_digits, overall, printed, settings, verdicts
from hypo.claims.checks import CHECKS
from hypo.claims.rules import weakest
from hypo.data.benchmarks import CORRUPTED
from hypo.data.corruptions import CORRUPTIONS
from hypo.display.claims import listing
from hypo.paper import NUMBERS, SECTIONS
from hypo.paper import table as paper
from hypo.report import claims as report
from hypo.report.claims import evidence, headlines, of_page, section
from hypo.report.claims import rule as describe

TOP = Path(__file__).resolve().parents[1]
ERM, HYPO = {"algorithm": "erm"}, {"algorithm": "hypo"}


def run(folder, accuracy, setting=HYPO, benchmark="pacs", held_out="cartoon", scale="cpu", seed=0, **more):
    """Write the record of a run with this setting, OOD accuracy and other measures."""
    rest = {field: value for field, value in setting.items() if field != "algorithm"}
    given = {"ood": more.pop("ood", {held_out: accuracy}), "ood_accuracy": accuracy, "settings": rest} | more
    return made_run(folder, benchmark, setting.get("algorithm", "hypo"), held_out, scale, seed, **given)


def pairs(folder, leads, setting=HYPO, than=ERM, **more):
    """Runs of two settings whose accuracies differ by these leads (in percent), one per seed."""
    for seed, lead in enumerate(leads):
        run(folder, 0.6, than, seed=seed, **more)
        run(folder, 0.6 + lead / 100, setting, seed=seed, **more)


def claim(rule, name="it", benchmark="pacs", **more):
    given = {"id": name, "claim": "A.", "where": ["Section 1"], "page": "pacs", "rule": rule, **more}
    return given | ({"benchmark": benchmark} if benchmark else {})


def compare(of=HYPO, above=ERM, measure="ood_accuracy"):
    return {"kind": "compare", "measure": measure, "of": of, "above": above}


def judged(folder, *claims):
    """{(id, scale): row} of these claims, the evidence as text."""
    found = verdicts(runs.load(folder), [*claims])
    found["evidence"] = [evidence(line) for line in found.itertuples()]
    return {(row["id"], row["scale"]): row for _, row in found.iterrows()}


def at_cpu(folder, rule, **more):
    return judged(folder, claim(rule, **more))["it", "cpu"]


# compare


def test_a_lead_whose_interval_excludes_zero_is_supported(tmp_path):
    leads = (2.0, 3.0, 4.5)
    pairs(tmp_path, leads)
    row = at_cpu(tmp_path, compare())
    low, high = stats.ttest_1samp(leads, 0).confidence_interval(0.95)
    assert low > 0 and row["outcome"] == "supported"
    assert row["evidence"] == f"+3.2 points [+{low:.1f}, +{high:.1f}] (3 pairs: cartoon; 3 seeds)"
    assert (row["n"], row["data"]) == (3, "pacs")
    assert [origin.file for origin in row["origins"]] == sorted(path.name for path in tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("leads", "outcome"),
    [
        ((-1.0, 3.0, 2.0), "inconclusive"),
        ((0.0, 0.0, 0.0), "inconclusive"),
        ((-2.0, -3.0, -4.0), "contradicted"),
        ((2.0, 3.0, 4.0), "supported"),
    ],
)
def test_the_outcome_is_where_the_interval_lies(tmp_path, leads, outcome):
    pairs(tmp_path, leads)
    assert at_cpu(tmp_path, compare())["outcome"] == outcome


def test_the_rule_turns_exactly_at_students_interval(tmp_path):
    for name, middle in (("inside", 7.4), ("outside", 7.5)):  # sd 3 over 3 runs: 4.303 standard errors are 7.452
        pairs(tmp_path / name, (middle - 3, middle, middle + 3))
    assert at_cpu(tmp_path / "inside", compare())["outcome"] == "inconclusive"
    assert at_cpu(tmp_path / "outside", compare())["outcome"] == "supported"


def test_what_domains_differ_by_is_no_noise(tmp_path):
    for level, domain in zip((0.2, 0.5, 0.9), ("photo", "cartoon", "sketch"), strict=True):
        for seed in (0, 1):
            run(tmp_path, level, ERM, held_out=domain, seed=seed)
            run(tmp_path, level + 0.01 + 0.001 * seed, held_out=domain, seed=seed)
    row = at_cpu(tmp_path, compare())
    assert row["outcome"] == "supported"
    assert (
        row["evidence"].startswith("+1.1 points [") and "(6 pairs: cartoon, photo, sketch; 2 seeds)" in row["evidence"]
    )


def test_one_seed_has_no_interval_and_decides_nothing(tmp_path):
    for domain in PACS:
        pairs(tmp_path, [9.0], held_out=domain)
    row = at_cpu(tmp_path, compare())
    assert row["outcome"] == "inconclusive"
    assert row["evidence"].startswith("+9.0 points (4 pairs: ") and "1 seed, so no interval" in row["evidence"]


def test_a_page_says_which_of_its_claims_rest_on_one_seed(tmp_path):
    assert report.without_interval("tau_alpha", runs.load(tmp_path)) == ""
    for seed in range(2):
        run(tmp_path, 0.7, seed=seed)
        run(tmp_path, 0.6 + 0.01 * seed, {"temperature": 0.9}, seed=seed)
    assert report.without_interval("tau_alpha", runs.load(tmp_path)) == "", "two seeds have an interval"
    run(tmp_path, 0.6, {"temperature": 0.5})
    said = report.without_interval("tau_alpha", runs.load(tmp_path))
    assert "1 of 2 for “Smaller temperatures" in said and "Too large" not in said and said.count(". ") == 0


def test_a_run_that_failed_to_train_is_named_with_the_comparison(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    run(tmp_path, 0.6, ERM, seed=2, cosine=None)
    run(tmp_path, 0.1, seed=2, cosine=0.99)
    assert "1 of 3 with a run that failed to train" in at_cpu(tmp_path, compare())["evidence"]


def test_runs_without_a_partner_do_not_count(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    run(tmp_path, 0.0, ERM, seed=7)
    run(tmp_path, 1.0, held_out="photo")
    assert at_cpu(tmp_path, compare())["n"] == 2


def test_what_was_not_run_names_the_command(tmp_path):
    run(tmp_path, 0.5, ERM)
    found = judged(tmp_path, claim(compare({"separation": False})))
    assert {row["outcome"] for row in found.values()} == {"not run"}
    command = (
        "`hypo sweep --benchmark pacs --algorithm hypo --held-out each --scale {} --seed 0,1,2 --separation false`"
    )
    assert found["it", "cpu"]["evidence"] == command.format("cpu")
    assert found["it", "paper"]["evidence"] == command.format("paper") + ", and 1 other setting"
    swad = at_cpu(tmp_path, compare({"rule": "swad"}, {"rule": "validation"}))
    assert swad["evidence"] == command.format("cpu").replace(" --separation false", "")  # one run gives both
    missing = at_cpu(tmp_path, compare(ERM, {"algorithm": "gvrt"}))
    assert (missing["outcome"], missing["evidence"]) == ("not run", "not implemented here: GVRT")
    corrupted = at_cpu(tmp_path, compare(), benchmark="cifar10")["evidence"]
    assert corrupted.startswith("`hypo sweep --benchmark cifar10 --algorithm hypo --held-out none --scale cpu")


def test_scales_and_benchmarks_are_kept_apart(tmp_path):
    pairs(tmp_path, (2.0, 2.1, 2.2), benchmark="digits", scale="demo")
    pairs(tmp_path, (-5.0, -5.1), scale="cpu")
    pairs(tmp_path, (30.0, 31.0), benchmark="vlcs", held_out="SUN09")
    found = judged(tmp_path, claim(compare()))
    assert {scale: (row["data"], row["n"], row["outcome"]) for (_, scale), row in found.items()} == {
        "cpu": ("pacs", 2, "contradicted"),
        "paper": ("pacs", 0, "not run"),
    }
    assert not any(origin.benchmark == "digits" for row in found.values() for origin in row["origins"])


def test_the_digits_decide_nothing_about_a_benchmark_and_have_rows_of_their_own(tmp_path):
    pairs(tmp_path, (2.0, 2.1, 2.2), benchmark="digits", scale="demo")
    frame = runs.load(tmp_path)
    assert overall(verdicts(frame, [claim(compare())]))["outcome"].tolist() == ["not run"]
    own = on_digits(frame, [claim(compare())])
    assert own[["data", "scale", "outcome", "n"]].to_numpy().tolist() == [["digits", "demo", "supported", 3]]
    for benchmark in ("office_home", "vlcs", "terra_incognita", "imagenet100"):
        assert on_digits(frame, [claim(compare(), benchmark=benchmark)]).empty


def test_held_out_runs_and_corruption_runs_are_kept_apart(tmp_path):
    pairs(tmp_path, (2.0, 2.1), benchmark="digits", scale="demo")
    corrupted = {name: {"1": 0.5, "5": 0.3} for name in CORRUPTIONS}
    for seed in (0, 1, 2):
        both = {"benchmark": "digits", "scale": "demo", "held_out": None, "seed": seed}
        run(tmp_path, 0.4, ERM, ood=corrupted, **both)
        run(tmp_path, 0.4, ood=corrupted | {"fog": {"1": 0.5, "5": 0.32 + seed / 100}}, **both)

    def on(rule, benchmark):
        found = on_digits(runs.load(tmp_path), [claim(rule, benchmark=benchmark)])
        return next(found.itertuples())

    assert on(compare(), "pacs").n == 2
    fog = on(compare(measure="ood.fog"), "cifar10")
    assert (fog.outcome, fog.n) == ("supported", 3)
    assert evidence(fog) == "+1.5 points [+0.3, +2.7] (3 pairs: 3 seeds)"  # of the means over severities
    both = on(compare(measure=["ood.fog", "ood.snow"]), "cifar10")
    assert both.outcome == "inconclusive"
    weakest = "weakest: accuracy under snow of HYPO minus ERM +0.0 points [+0.0, +0.0]"
    assert evidence(both).startswith(f"of 2 comparisons 1 supported, 1 inconclusive; {weakest}")


@pytest.mark.parametrize("above, expected", [(True, "b"), (False, "c")])
def test_without_intervals_the_lead_furthest_to_the_other_side_is_the_weakest(above, expected):
    leads = {"a": (1.8, math.nan), "b": (-3.9, math.nan), "c": (2.5, math.nan)}
    found = {name: SimpleNamespace(estimate=SimpleNamespace(value=v, low=i, high=i)) for name, (v, i) in leads.items()}
    assert weakest((*found.values(),), above) is found[expected]
    known = SimpleNamespace(estimate=SimpleNamespace(value=9.0, low=8.0, high=10.0))
    assert weakest((*found.values(), known), above) is known


def test_the_comparison_that_is_shown_is_one_that_decides(tmp_path):
    pairs(tmp_path, (-2.0, -2.1), HYPO, {"temperature": 0.2})
    for seed, ood in enumerate((0.99, 0.01)):  # far below or far above
        run(tmp_path, ood, {"temperature": 0.5}, seed=seed)
    row = at_cpu(tmp_path, compare(HYPO, {"temperature": [0.2, 0.5]}))
    assert row["outcome"] == "contradicted"
    assert (
        "1 contradicted, 1 inconclusive; weakest: OOD accuracy of HYPO minus HYPO with temperature 0.2"
        in row["evidence"]
    )


def test_a_setting_means_every_other_field_at_its_default(tmp_path):
    pairs(tmp_path, (2.0, 2.1, 2.2))
    pairs(tmp_path, (-9.0, -9.0), {"separation": False, "lr": 0.2}, {"algorithm": "erm", "lr": 0.2})
    assert at_cpu(tmp_path, compare())["n"] == 3
    assert at_cpu(tmp_path, compare({"momentum": 0.95, "separation": True}))["n"] == 3  # these are the defaults
    assert at_cpu(tmp_path, compare({"separation": False}))["n"] == 0


def test_swad_is_a_rule_of_selection_of_the_same_runs(tmp_path):
    for seed in range(3):
        averaged = {"swad": {"ood_accuracy": 0.75 + seed / 1000}}
        run(tmp_path, 0.7, seed=seed, rules=averaged, interval={"starts_at_first": seed == 0})
    row = at_cpu(tmp_path, compare({"rule": "swad"}, {"rule": "validation"}))
    assert (row["outcome"], row["n"], len(row["origins"])) == ("supported", 3, 3)
    assert "SWAD averages from the first evaluation on in 1" in row["evidence"]


def test_a_rule_reads_as_a_sentence():
    assert describe(compare(measure=["ood.fog", "ood.snow"])) == (
        "accuracy under fog and snow of HYPO, each above that of ERM, in paired runs, with 95% confidence"
    )
    assert describe(compare({"momentum": [0.5, 0.9], "rule": "swad"}, {"algorithm": ["erm", "pcl"]})) == (
        "OOD accuracy of HYPO with momentum 0.5 and 0.9 with SWAD, each above that of each of ERM and PCL, in paired "
        "runs, with 95% confidence"
    )
    limit = {"kind": "limit", "measure": "epsilon_hat", "of": HYPO, "below": 0.1}
    assert describe(limit) == "epsilon-hat of HYPO below 0.1 with 95% confidence"


def test_a_list_asks_for_every_comparison(tmp_path):
    sweep = {"temperature": [0.2, 0.5]}
    pairs(tmp_path, (2.0, 2.1), HYPO, {"temperature": 0.2})
    some = at_cpu(tmp_path, compare(HYPO, sweep))
    assert some["outcome"] == "not run"
    expected = "of 2 comparisons 1 supported, 1 not run; weakest: OOD accuracy of HYPO minus HYPO with temperature 0.2"
    assert some["evidence"].startswith(expected)
    for seed in (0, 1):
        run(tmp_path, 0.9, {"temperature": 0.5}, seed=seed)
    assert at_cpu(tmp_path, compare(HYPO, sweep))["outcome"] == "contradicted"
    assert at_cpu(tmp_path, compare({"temperature": 0.5}, {"temperature": [0.1, 0.2]}))["outcome"] == "supported"


def test_one_contradicted_comparison_decides_though_others_are_not_run(tmp_path):
    pairs(tmp_path, (-2.0, -2.1))
    rule = compare(HYPO, {"algorithm": ["erm", "gvrt", "vne"]})
    assert at_cpu(tmp_path, rule)["outcome"] == "contradicted"


def test_a_method_that_cannot_be_run_is_left_out_and_named(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    for seed in (0, 1):
        run(tmp_path, 0.3 + seed / 100, {"algorithm": "vne"}, seed=seed)
    found = at_cpu(tmp_path, compare(HYPO, {"algorithm": ["erm", "gvrt", "vne"]}))
    assert found["outcome"] == "supported"
    assert found["evidence"].startswith("of 2 comparisons 2 supported;")
    assert found["evidence"].endswith("; left out, since it cannot be run: GVRT")


def test_no_rule_asks_for_a_run_that_is_refused():
    """A method that compares training domains cannot be trained on a benchmark of one."""
    for given in load():
        if given.get("benchmark") in CORRUPTED.values():
            sides = [given["rule"].get(side, {}) for side in ("of", "above", "below")]
            asked = [setting for side in sides if isinstance(side, dict) for setting in settings(side)]
            kinds = {method(setting.get("algorithm", "hypo")).sampling for setting in asked}
            assert kinds <= {"pooled"}, given["id"]


def test_below_is_above_turned_round(tmp_path):
    for seed in (0, 1, 2):
        run(tmp_path, 0.5, seed=seed, epsilon_hat=0.05 + seed / 1000)
        run(tmp_path, 0.5, ERM, seed=seed, epsilon_hat=0.2)
    rule = {"kind": "compare", "measure": "epsilon_hat", "of": HYPO}
    below = at_cpu(tmp_path, rule | {"below": ERM})
    assert below["outcome"] == "supported"
    assert below["evidence"] == "−0.149 [−0.151, −0.147] (3 pairs: cartoon; 3 seeds)"
    assert at_cpu(tmp_path, rule | {"above": ERM})["outcome"] == "contradicted"


def test_runs_on_other_data_are_no_pair(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    run(tmp_path, 0.9, seed=9, data="12345678")
    run(tmp_path, 0.1, ERM, seed=9)
    assert at_cpu(tmp_path, compare())["n"] == 2


# limit, near, all, open


def test_a_limit_is_held_against_students_interval(tmp_path):
    rule = {"kind": "limit", "measure": "epsilon_hat", "of": HYPO, "below": 0.2}
    assert at_cpu(tmp_path, rule)["outcome"] == "not run"
    run(tmp_path, 0.5, epsilon_hat=0.06)
    assert at_cpu(tmp_path, rule)["outcome"] == "inconclusive"
    run(tmp_path, 0.5, seed=1, epsilon_hat=0.08)  # 0.07, interval 0.07 ± 12.7 x 0.01: -0.057 to 0.197
    row = at_cpu(tmp_path, rule)
    assert row["outcome"] == "supported"
    assert row["evidence"] == "0.070 [−0.057, 0.197] (2 runs: cartoon; 2 seeds)"
    assert at_cpu(tmp_path, rule | {"below": 0.19})["outcome"] == "inconclusive"
    assert at_cpu(tmp_path, rule | {"below": -0.06})["outcome"] == "contradicted"
    above = {key: value for key, value in rule.items() if key != "below"} | {"above": -0.06}
    assert at_cpu(tmp_path, above)["outcome"] == "supported"


def test_a_printed_number_is_held_against_whole_averages_at_paper_scale_only(tmp_path):
    near = claim(
        {"kind": "near", "measure": "ood_accuracy", "of": HYPO, "within": 1.0},
        paper={"table": "pacs", "column": "average", "algorithm": "HYPO (Ours)"},
    )
    for scale, level in (("cpu", 0.88), ("paper", 0.879)):
        for seed, domain in itertools.product((0, 1), PACS):
            run(tmp_path, level + seed / 1000, held_out=domain, scale=scale, seed=seed)
    run(tmp_path, 0.1, scale="paper", seed=2)  # one domain is no average
    found = judged(tmp_path, near)
    assert [*found] == [("it", "paper")]
    assert found["it", "paper"]["outcome"] == "supported" and found["it", "paper"]["n"] == 2
    near["rule"]["within"] = 0.5  # 87.95 with the interval 87.3 to 88.6
    assert judged(tmp_path, near)["it", "paper"]["outcome"] == "inconclusive"
    near["paper"]["algorithm"] = "ERM"  # 85.5
    assert judged(tmp_path, near)["it", "paper"]["outcome"] == "contradicted"


def test_several_claims_at_once_need_all_of_them(tmp_path):
    first, second = claim(compare(), "first"), claim(compare({"separation": False}), "second")
    whole = claim({"kind": "all", "claims": ["first", "second"]}, "whole", benchmark=None)
    pairs(tmp_path, (2.0, 2.1))
    row = judged(tmp_path, whole, first, second)["whole", "cpu"]
    assert (row["outcome"], row["evidence"]) == (
        "not run",
        "supported:\n[first](claims.html#first)\nnot run:\n[second](claims.html#second)",
    )
    for seed in (0, 1):
        run(tmp_path, 0.1, {"separation": False}, seed=seed)
    assert judged(tmp_path, whole, first, second)["whole", "cpu"]["outcome"] == "contradicted"


def test_what_nothing_can_decide_is_not_run_and_says_why(tmp_path):
    row = judged(tmp_path, claim({"kind": "open", "reason": "Unknown constants."}, benchmark=None))["it", ""]
    assert (row["outcome"], row["evidence"]) == ("not run", "Unknown constants.")


# the outcome over the scales


def test_the_largest_scale_that_has_an_interval_is_the_one_shown(tmp_path):
    def outcome():
        return overall(verdicts(runs.load(tmp_path), [claim(compare())])).iloc[0]["outcome"]

    assert outcome() == "not run"
    pairs(tmp_path, (-2.0, -2.1))
    assert outcome() == "contradicted"
    pairs(tmp_path, [9.0], scale="paper")
    assert outcome() == "contradicted"  # one seed at paper scale decides nothing
    run(tmp_path, 0.6, ERM, scale="paper", seed=1)
    run(tmp_path, 0.692, scale="paper", seed=1)
    assert outcome() == "supported"


# checks


def test_a_run_without_the_measure_is_in_no_pair(tmp_path):
    rule = {"kind": "compare", "measure": "sinkhorn", "of": HYPO, "below": ERM}
    for seed in (0, 1):
        run(tmp_path, 0.5, seed=seed, sinkhorn=0.1 + 0.01 * seed)
        run(tmp_path, 0.5, ERM, seed=seed, sinkhorn=0.5)
    run(tmp_path, 0.5, seed=2, sinkhorn=0.9)
    run(tmp_path, 0.5, ERM, seed=2)
    row = at_cpu(tmp_path, rule)
    assert (row["outcome"], row["n"]) == ("supported", 2)


def test_a_lemma_that_does_not_hold_fails(tmp_path):
    y, domains = np.arange(60) % 3, np.arange(60) // 30
    away = unit(3, 4)[torch.from_numpy(y)]  # every sample equally far from its prototype: no variance, yet none is near
    run(tmp_path, 0.5, embeddings=arrays(away.numpy(), y, domains, unit(3, 4, seed=1).numpy()))
    assert at_cpu(tmp_path, {"kind": "check", "name": "Lemma C.3"})["outcome"].startswith("holds")
    assert at_cpu(tmp_path, {"kind": "check", "name": "Lemma C.3, its proof"})["outcome"] == "fails"


def test_a_bound_that_no_embedding_can_exceed_says_nothing(tmp_path):
    y, domains = np.arange(60) % 3, np.arange(60) // 30
    rule, mu = {"kind": "check", "name": "Lemma C.4"}, unit(3, 4, seed=1)
    run(tmp_path, 0.5, ERM, embeddings=arrays(unit(60, 4).numpy(), y, domains))
    assert at_cpu(tmp_path, rule)["outcome"] == "not run"
    path = run(tmp_path / "loose", 0.5, embeddings=arrays(unit(60, 4).numpy(), y, domains, mu.numpy()))
    row = at_cpu(tmp_path / "loose", rule)
    assert (row["outcome"], row["n"]) == ("holds but says nothing here", 1)
    assert [origin.file for origin in row["origins"]] == [path.name]
    assert re.match(r"holds in (\d+) of \1 places on 1 model; nearest to failing: W1", row["evidence"])
    tight = arrays(mu.numpy()[y], y, domains, mu.numpy())  # every sample at its prototype
    run(tmp_path / "tight", 0.5, embeddings=tight)
    assert at_cpu(tmp_path / "tight", rule)["outcome"] == "holds"


@pytest.mark.parametrize("name", ["vmf", "etf"])
def test_the_mathematics_holds_and_a_wrong_loss_is_noticed(name, monkeypatch):
    assert CHECKS[name].run(None).outcome == "holds"
    wrong = {"vmf": "variation_loss", "etf": "separation_loss"}[name]
    right = getattr(__import__("hypo.sphere").sphere, wrong)
    monkeypatch.setattr(f"hypo.sphere.{wrong}", lambda *given: 1.01 * right(*given))
    checks._above_least.cache_clear()
    try:
        assert CHECKS[name].run(None).outcome == "fails"
    finally:
        checks._above_least.cache_clear()


# the file


WRONG = {
    "claim it lacks where": lambda c: c.pop("where"),
    "where of claim it must be a list of places": lambda c: c.update(where="Section 1"),
    "unknown key in claim it 'pge': did you mean page": lambda c: c.update(pge=c.pop("page")),
    "unknown kind of rule in claim it 'compair': did you mean compare": lambda c: c["rule"].update(kind="compair"),
    "unknown measure in claim it 'odd_accuracy': did you mean ood_accuracy": lambda c: c["rule"].update(
        measure="odd_accuracy"
    ),
    "unknown field in claim it 'tempreture': did you mean temperature": lambda c: c["rule"].update(
        of={"tempreture": 0.1}
    ),
    "unknown algorithm in claim it 'coal': did you mean coral": lambda c: c["rule"].update(above={"algorithm": "coal"}),
    "separation must be true or false, not 3": lambda c: c["rule"].update(of={"separation": 3}),
    "unknown rule of selection in claim it 'swat': did you mean swad": lambda c: c["rule"].update(of={"rule": "swat"}),
    "the rule of claim it lacks of": lambda c: c["rule"].pop("of"),
    "the rule of claim it needs either above or below": lambda c: c["rule"].update(below=ERM),
    "unknown benchmark in claim it 'pcs': did you mean pacs": lambda c: c.update(benchmark="pcs"),
    "claim it is decided by runs and needs a benchmark": lambda c: c.pop("benchmark"),
    "unknown table 'pacss': did you mean pacs": lambda c: c.update(
        paper={"table": "pacss", "column": "average", "algorithm": "ERM"}
    ),
    "unknown check in claim it 'vmff': did you mean vmf": lambda c: c.update(rule={"kind": "check", "name": "vmff"}),
    "unknown claim in it 'its': did you mean it": lambda c: c.update(rule={"kind": "all", "claims": ["its"]}),
    "the rule of claim it must be a mapping": lambda c: c.update(rule="compare"),
    "a claim must be a mapping with an id of one word, not 'a\\nb'": lambda c: c.update(id="a\nb"),
    "a claim must be a mapping with an id of one word, not ['it']": lambda c: c.update(id=["it"]),
    "claim without-an-id lacks id": lambda c: c.pop("id"),
    "of in the rule of claim it must be a mapping of settings, not ['hypo']": lambda c: c["rule"].update(of=["hypo"]),
    "table in paper of claim it must be the name of a table, not ['pacs']": lambda c: c.update(
        paper={"table": ["pacs"], "column": "average", "algorithm": "ERM"}
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_mistake_in_the_file_is_one_sentence(tmp_path, sentence):
    given = claim(compare())
    WRONG[sentence](given)
    (tmp_path / "claims.yml").write_text(yaml.safe_dump([given]))
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        load(tmp_path / "claims.yml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("- id: [", "claims.yml is not YAML"),
        ("id: it", "claims.yml must be a list of claims"),
        ("- it", "a claim must be a mapping with an id of one word, not 'it'"),
    ],
)
def test_a_file_that_is_no_list_of_claims_is_refused(tmp_path, text, sentence):
    (tmp_path / "claims.yml").write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(tmp_path / "claims.yml")
    assert "\n" not in str(caught.value)


def test_an_id_is_given_once(tmp_path):
    (tmp_path / "claims.yml").write_text(yaml.safe_dump([claim(compare())] * 2))
    with pytest.raises(ValueError, match="the id it is given to two claims"):
        load(tmp_path / "claims.yml")


def test_every_bold_number_of_the_paper_is_a_claim():
    tables = [path.stem for path in (TOP / "data" / "paper").glob("*.csv")]
    bold = {value for table in tables for value in paper(table).query("bold")["value"]}
    assert len(bold) > 10
    assert bold <= {printed(given) for given in load()}


def test_every_corruption_is_compared():
    (given,) = [given for given in load() if given["id"] == "corruptions-each"]
    assert sorted(given["rule"]["measure"]) == sorted(f"ood.{name}" for name in CORRUPTIONS)


def test_every_baseline_of_the_papers_table_is_compared():
    (given,) = [given for given in load() if given["id"] == "pacs-best"]
    baselines = given["rule"]["above"]["algorithm"]
    assert len(baselines) == len(set(baselines)) == paper("pacs")["algorithm"].nunique() - 1


def test_the_notes_on_the_papers_own_tables_are_true():
    def averages(table):
        return paper(table).query("column == 'average'").set_index("method")["value"]

    assert (averages("vlcs") > averages("vlcs")["HYPO (Ours)"]).any()
    assert averages("vlcs-swad")["HYPO+SWAD (Ours)"] == averages("vlcs-swad")["VNE+SWAD"]
    for given in load():
        if (
            given["id"].endswith("-best") and "paper" in given
        ):  # the margin shown is the one over the best of the others
            others = averages(given["paper"]["table"]).drop("HYPO (Ours)")
            assert given["paper"]["less"] == others.idxmax()


@pytest.mark.heavy
def test_the_table_is_tidy_and_every_outcome_has_its_evidence():
    claims, table = load(), verdicts()
    assert [*table["id"].unique()] == [given["id"] for given in claims]
    assert not table.duplicated(["id", "scale"]).any()
    assert set(table["outcome"]) <= set(OUTCOMES)
    assert all(evidence(line) for line in table.itertuples())
    assert (table.query("outcome != 'not run'")["n"] > 0).all()
    assert all(describe(given["rule"]) for given in claims)
    files = {origin.file for row in [*table["origins"], *on_digits()["origins"]] for origin in row}
    assert files <= {path.name for path in records.folder().glob("*.json")}


def test_the_short_table_has_the_headlines_in_few_words():
    short = headlines()
    assert [*short] == ["claim", "outcome", "evidence", "page", "origins"]
    assert max(map(len, short["claim"])) <= 50, "one line each"
    assert len(short) == sum(given.get("headline", False) for given in load()) <= 8


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def test_the_count_of_all_claims_adds_up_and_has_the_tested_ones_of_the_finding(tmp_path):
    pairs(tmp_path, (-2.0, -2.1))
    for frame in (runs.load(tmp_path), runs.load(tmp_path)[:0]):
        said = report.counted(frame)
        total, *rest = numbers(re.sub(r"\([^)]*\)", "", said))
        assert total == sum(rest) == len(load())
        for whole, parts in re.findall(r"(\d+) [^,()]*\(([^)]*)\)", said):
            assert int(whole) == sum(numbers(parts))
    said, finding = report.counted(runs.load(tmp_path)), report.finding(runs.load(tmp_path))[-1]
    tested = re.search(r"(\d+) were tested by runs on real data", finding)[1]
    assert f"{tested} were tested by runs (" in said
    assert "made of other claims" in said and "made of other" not in report.counted(runs.load(tmp_path)[:0])


def test_claims_that_share_a_comparison_are_counted_however_they_name_it(tmp_path):
    pairs(tmp_path, (-2.0, -2.1))  # pacs-erm, pacs-best and alpha-range, whose momentum 0.95 is the default
    frame = runs.load(tmp_path)
    contradicted = report.verdicts(frame).query("outcome == 'contradicted' and data != ''")
    assert {*contradicted["id"]} == {"pacs-erm", "pacs-best", "alpha-range"} | {"epsilon-pacs"} & {*contradicted["id"]}
    first = report.shared(frame).partition(".")[0]
    comparisons = len(contradicted) - 2
    assert first.startswith(f"The {len(contradicted)} contradicted rest on {comparisons} comparison")
    assert "3 of these claims share one, OOD accuracy of HYPO minus ERM" in first
    assert report.shared(frame[:0]) == ""


def test_measures_and_rules_of_selection_make_other_comparisons(tmp_path):
    for seed in range(2):
        for setting, accuracy in ((HYPO, 0.5), (ERM, 0.6)):
            run(tmp_path, accuracy + seed / 1000, setting, seed=seed, rules={"swad": {"ood_accuracy": accuracy}})
    frame = runs.load(tmp_path)

    def basis(of, above, measure="ood_accuracy"):
        (found,) = verdicts(frame, [claim(compare(of, above, measure))]).query("scale == 'cpu'")["evidence"]
        return found.findings[0].comparison

    same = basis(HYPO, ERM)
    assert same == basis({}, ERM) == basis({"momentum": 0.95}, ERM) == basis({"rule": "validation"}, ERM)
    assert same != basis(HYPO, ERM, "separation") and same != basis({"rule": "swad"}, ERM | {"rule": "swad"})


def test_chance_is_that_of_the_rule_with_the_most_comparisons():
    most = max(verdicts(runs.load()[:0])["evidence"].map(lambda found: found.asked))
    assert most == len(CORRUPTIONS)
    assert f"asks for {most};" in report.by_chance() and f"in {1 - 0.975**most:.0%}." in report.by_chance()


@pytest.mark.parametrize(
    ("leads", "said"),
    [((2.0, 2.1), "is ahead of"), ((-2, -2.1), "is behind"), ((9, -8), "told"), ((-9,), "one seed decides nothing")],
)
def test_the_finding_says_what_the_runs_say(tmp_path, leads, said):
    pairs(tmp_path, leads)
    first, *_, last = report.finding(runs.load(tmp_path))
    assert said in first and "On PACS at cpu scale" in first and ("[" in first) == (len(leads) > 1)
    assert "were tested by runs on real data" in last and "Table 4 has +2.5 points" in first


def test_without_runs_on_real_data_the_finding_says_so(tmp_path):
    pairs(tmp_path, (2.0, 2.1), benchmark="digits", scale="demo")
    (only,) = report.finding(runs.load(tmp_path))
    assert only.startswith("No run on the paper's own benchmarks is recorded here")
    assert "were not compared on VLCS" in report.against_erm("vlcs", runs.load(tmp_path))


def test_every_table_and_figure_of_the_paper_is_listed_with_its_state(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    shown = report.artefacts(runs.load(tmp_path)).frame.set_index("in the paper")
    assert sorted(shown.index) == sorted(NUMBERS.values())
    assert shown.loc["Table 4", "records"] == 4 and "1 supported" in shown.loc["Table 4", "claims about it"]
    assert shown.loc["Table 6", "our data and scale"] == "none"
    pages = {re.search(r"\((\w+)\.html\)", here)[1] for here in shown["here"]}
    assert pages <= {path.stem for path in (TOP / "book").glob("*.ipynb")}


def test_the_page_of_claims_has_each_once_with_its_rule_records_and_commands(tmp_path):
    pairs(tmp_path, (2.0, 2.2))
    html = listing(runs.load(tmp_path)).text
    for given in load():
        assert html.count(f'<details id="{given["id"]}"') == 1
    (own,) = re.findall(r'<details id="pacs-erm".*?</details>', html, re.DOTALL)
    assert 'data-outcome="supported"' in own and "+2.1 points" in own and "hypo sweep --benchmark pacs" in own
    assert "pacs-cartoon-hypo-cpu-s0" in own and "<dt>Rule</dt>" in own
    assert not re.search(r"(src|href)=\"https?:", html)


def test_where_names_tables_and_figures_by_their_numbers():
    for given in load():
        named = {place for place in given["where"] if place.startswith(("Table", "Figure"))}
        assert named <= {*NUMBERS.values()}, given["id"]
        assert section(given["where"]) in SECTIONS, given["id"]


def test_a_limit_that_the_paper_prints_is_judged_at_paper_scale_only(tmp_path):
    for seed in range(3):
        run(tmp_path, 0.5, seed=seed, epsilon_hat=0.25)
    rule = {"kind": "limit", "measure": "epsilon_hat", "of": HYPO, "below": 0.1}
    ours, printed = claim(rule), claim(rule) | {"paper": {"table": "quan", "column": "pacs", "algorithm": "HYPO"}}
    frame = runs.load(tmp_path)
    assert "contradicted" in [*verdicts(frame, claims=[ours])["outcome"]]
    found = verdicts(frame, claims=[printed])
    assert found[["scale", "outcome"]].to_numpy().tolist() == [["paper", "not run"]]


def test_a_page_has_its_own_claims_and_the_digits_apart(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    pairs(tmp_path, (-2.0, -2.1), benchmark="digits", scale="demo")
    frame = runs.load(tmp_path)
    own, aside = of_page("pacs", frame), report.on_digits(frame)
    assert own.frame["outcome"].tolist() == ["supported", "not run"] and own.about == ("real data",)
    decided = aside.frame.set_index("rule of the claim, applied to the digits")["outcome"]
    assert decided["On PACS HYPO generalises to a held-out domain better than ERM."] == "contradicted"
    assert aside.about == ("digits",)
    assert "decide nothing about the paper's benchmarks" in aside.caption


def test_the_page_of_a_claim_is_in_the_book():
    assert {given["page"] for given in load()} <= {path.stem for path in (TOP / "book").glob("*.ipynb")}


def test_a_claim_made_of_others_is_judged_without_them_in_the_list(tmp_path):
    every = load()
    (one, *_) = [claim for claim in every if claim["rule"]["kind"] == "all"]
    frame = runs.load(tmp_path)
    whole = verdicts(frame).query("id == @one['id']").reset_index(drop=True)
    pd.testing.assert_frame_equal(verdicts(frame, claims=[one]), whole)
