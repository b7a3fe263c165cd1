"""Every rule on records made for the purpose, with known answers; the file of claims; the checks."""

import dataclasses
import itertools
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import labels, unit
from test_records import a_record

from hypo import records
from hypo.claims import load, overall, summary, verdicts
from hypo.claims.checks import CHECKS
from hypo.claims.runs import EMBEDDED
from hypo.claims.statements import describe, printed
from hypo.config import configure
from hypo.data.corruptions import CORRUPTIONS
from hypo.tables import paper

TOP = Path(__file__).resolve().parents[1]
ERM, HYPO = {"algorithm": "erm"}, {"algorithm": "hypo"}


def run(folder, accuracy, setting=HYPO, benchmark="digits", held_out="cartoon", scale="demo", seed=0, **measures):
    """Write the record of a run with this setting, OOD accuracy and other measures."""
    rest = {field: value for field, value in setting.items() if field != "algorithm"}
    algorithm = setting.get("algorithm", "hypo")
    config = dataclasses.asdict(configure(benchmark, algorithm, held_out, scale, seed, **rest))
    embeddings = measures.pop("embeddings", None)
    ood = measures.pop("ood", {held_out: accuracy})
    record = a_record(**config)
    record["benchmark"]["name"] = benchmark
    record["final"]["validation"] = record["final"]["validation"] | {"ood": ood, "ood_accuracy": accuracy} | measures
    return records.write(record, embeddings, folder)


def pairs(folder, leads, setting=HYPO, than=ERM, **more):
    """Runs of two settings whose accuracies differ by these leads (in percent), one a seed."""
    for seed, lead in enumerate(leads):
        run(folder, 0.6, than, seed=seed, **more)
        run(folder, 0.6 + lead / 100, setting, seed=seed, **more)


def claim(rule, name="it", benchmark="pacs", **more):
    given = {"id": name, "claim": "A.", "where": "Sec. 1", "page": "pacs", "rule": rule, **more}
    return given | ({"benchmark": benchmark} if benchmark else {})


def compare(of=HYPO, above=ERM, measure="ood_accuracy"):
    return {"kind": "compare", "measure": measure, "of": of, "above": above}


def judged(folder, *claims):
    """{(id, scale): row} of these claims."""
    return {(row["id"], row["scale"]): row for _, row in verdicts(folder, [*claims]).iterrows()}


def at_demo(folder, rule, **more):
    return judged(folder, claim(rule, **more))["it", "demo"]


# compare


def test_a_lead_beyond_two_standard_errors_is_reproduced(tmp_path):
    leads = (2.0, 3.0, 4.5)
    pairs(tmp_path, leads)
    row = at_demo(tmp_path, compare())
    mean, error = statistics.mean(leads), statistics.stdev(leads) / math.sqrt(3)
    assert mean > 2 * error
    assert row["verdict"] == "reproduced"
    assert row["evidence"] == f"+{mean:.1f} ± {error:.1f} points (n = 3: cartoon; 3 seeds)"
    assert (row["n"], row["data"]) == (3, "digits")
    assert row["files"].split() == sorted(path.name for path in tmp_path.glob("*.json"))


@pytest.mark.parametrize("leads", [(-1.0, 3.0, 2.0), (-2.0, -3.0, -4.0), (0.0, 0.0, 0.0)])
def test_a_lead_inside_the_noise_or_backwards_is_not_reproduced(tmp_path, leads):
    pairs(tmp_path, leads)
    assert at_demo(tmp_path, compare())["verdict"] == "not reproduced"


def test_the_rule_turns_exactly_at_students_interval(tmp_path):
    for name, middle in (("inside", 7.4), ("outside", 7.5)):  # sd 3 over 3 runs: 4.303 standard errors are 7.452
        pairs(tmp_path / name, (middle - 3, middle, middle + 3))
    assert at_demo(tmp_path / "inside", compare())["verdict"] == "not reproduced"
    assert at_demo(tmp_path / "outside", compare())["verdict"] == "reproduced"


def test_runs_are_paired_so_that_what_domains_share_is_no_noise(tmp_path):
    for level, domain in zip((0.2, 0.5, 0.9), ("photo", "cartoon", "sketch"), strict=True):
        run(tmp_path, level, ERM, held_out=domain)
        run(tmp_path, level + 0.01, held_out=domain)
    row = at_demo(tmp_path, compare())
    assert row["verdict"] == "reproduced"
    assert row["evidence"] == "+1.0 ± 0.0 points (n = 3: cartoon, photo, sketch; 1 seed)"


def test_one_pair_has_no_spread_and_gets_no_verdict(tmp_path):
    pairs(tmp_path, [9.0])
    row = at_demo(tmp_path, compare())
    assert row["verdict"] == "not run"
    assert row["evidence"] == "+9.0 points (n = 1: cartoon; 1 seed, no spread to judge it by)"


def test_runs_without_a_partner_do_not_count(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    run(tmp_path, 0.0, ERM, seed=7)
    run(tmp_path, 1.0, held_out="photo")
    assert at_demo(tmp_path, compare())["n"] == 2


def test_what_was_not_run_names_the_command(tmp_path):
    run(tmp_path, 0.5, ERM)
    found = judged(tmp_path, claim(compare({"swad": True})))
    assert {row["verdict"] for row in found.values()} == {"not run"}
    assert found["it", "demo"]["evidence"] == (
        "hypo train --benchmark digits --scale demo --algorithm hypo --swad true --held-out DOMAIN --seed SEED"
    )
    assert found["it", "paper"]["evidence"] == (
        "hypo train --benchmark pacs --scale paper --algorithm hypo --swad true --held-out DOMAIN --seed SEED, "
        "and 1 other setting"
    )
    missing = at_demo(tmp_path, compare(ERM, {"algorithm": "gvrt"}))
    assert missing["evidence"] == "not implemented here: gvrt"
    corrupted = at_demo(tmp_path, compare(), benchmark="cifar10")["evidence"]
    assert corrupted.startswith("hypo train --benchmark digits --scale demo --algorithm hypo --held-out none")


def test_scales_and_benchmarks_are_kept_apart(tmp_path):
    pairs(tmp_path, (2.0, 2.1, 2.2))
    pairs(tmp_path, (-5.0, -5.1), benchmark="pacs", scale="cpu")
    pairs(tmp_path, (30.0, 31.0), benchmark="vlcs", held_out="SUN09", scale="cpu")
    found = judged(tmp_path, claim(compare()))
    assert {scale: (row["data"], row["n"], row["verdict"]) for (_, scale), row in found.items()} == {
        "demo": ("digits", 3, "reproduced"),
        "cpu": ("pacs", 2, "not reproduced"),
        "paper": ("pacs", 0, "not run"),
    }
    assert not {"digits" in row["files"] for row in found.values() if row["data"] == "pacs"} & {True}


def test_digits_stand_in_for_pacs_and_cifar10_only(tmp_path):
    for benchmark in ("office_home", "vlcs", "terra_incognita", "imagenet100"):
        assert ("it", "demo") not in judged(tmp_path, claim(compare(), benchmark=benchmark))


def test_held_out_runs_and_corruption_runs_are_kept_apart(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    corrupted = {name: {"1": 0.5, "5": 0.3} for name in CORRUPTIONS}
    for seed in (0, 1, 2):
        run(tmp_path, 0.4, ERM, held_out=None, seed=seed, ood=corrupted)
        better = corrupted | {"fog": {"1": 0.5, "5": 0.32 + seed / 100}}
        run(tmp_path, 0.4, held_out=None, seed=seed, ood=better)
    assert at_demo(tmp_path, compare())["n"] == 2
    fog = at_demo(tmp_path, compare(measure="ood.fog"), benchmark="cifar10")
    assert (fog["verdict"], fog["n"]) == ("reproduced", 3)
    assert fog["evidence"] == "+1.5 ± 0.3 points (n = 3: 3 seeds)"  # of the means over severities
    both = at_demo(tmp_path, compare(measure=["ood.fog", "ood.snow"]), benchmark="cifar10")
    assert both["verdict"] == "not reproduced"
    assert both["evidence"].startswith("1 of 2 hold; the least: accuracy under snow, hypo less erm: +0.0 ± 0.0 points")


def test_a_setting_means_every_other_field_at_its_default(tmp_path):
    pairs(tmp_path, (2.0, 2.1, 2.2))
    pairs(tmp_path, (-9.0, -9.0), {"swad": True, "lr": 0.2}, {"algorithm": "erm", "lr": 0.2})
    assert at_demo(tmp_path, compare())["n"] == 3
    assert at_demo(tmp_path, compare({"momentum": 0.95, "swad": False}))["n"] == 3  # these are the defaults
    assert at_demo(tmp_path, compare({"swad": True}))["n"] == 0


def test_how_a_run_is_made_is_no_setting(tmp_path):
    pairs(tmp_path, (2.0, 2.1), {"accumulate": 2}, {"algorithm": "erm", "precision": "float32"})
    assert at_demo(tmp_path, compare())["n"] == 2


def test_a_rule_reads_as_a_sentence():
    assert describe(compare(measure=["ood.fog", "ood.snow"])) == (
        "accuracy under fog, snow of hypo above that of erm, in paired runs, with 95% confidence"
    )
    assert describe(compare({"momentum": [0.5, 0.9], "swad": True}, {"algorithm": ["erm", "pcl"]})) == (
        "OOD accuracy of hypo with momentum 0.5 or 0.9, swad true above that of erm or pcl, in paired runs, "
        "with 95% confidence"
    )
    limit = {"kind": "limit", "measure": "epsilon_hat", "of": HYPO, "below": 0.1}
    assert describe(limit) == "epsilon-hat of hypo below 0.1 with 95% confidence"


def test_a_list_asks_for_every_comparison(tmp_path):
    sweep = {"temperature": [0.2, 0.5]}
    pairs(tmp_path, (2.0, 2.1), HYPO, {"temperature": 0.2})
    some = at_demo(tmp_path, compare(HYPO, sweep))
    assert some["verdict"] == "not run"
    assert some["evidence"].startswith("1 of 2 hold, 1 not run; the least: OOD accuracy, hypo less hypo with temp")
    for seed in (0, 1):
        run(tmp_path, 0.9, {"temperature": 0.5}, seed=seed)
    assert at_demo(tmp_path, compare(HYPO, sweep))["verdict"] == "not reproduced"
    assert at_demo(tmp_path, compare({"temperature": 0.5}, {"temperature": [0.1, 0.2]}))["verdict"] == "reproduced"


def test_below_is_above_turned_round(tmp_path):
    for seed in (0, 1, 2):
        run(tmp_path, 0.5, seed=seed, epsilon_hat=0.05 + seed / 1000)
        run(tmp_path, 0.5, ERM, seed=seed, epsilon_hat=0.2)
    rule = {"kind": "compare", "measure": "epsilon_hat", "of": HYPO}
    below = at_demo(tmp_path, rule | {"below": ERM})
    assert (below["verdict"], below["evidence"]) == ("reproduced", "-0.149 ± 0.001 (n = 3: cartoon; 3 seeds)")
    assert at_demo(tmp_path, rule | {"above": ERM})["verdict"] == "not reproduced"


def test_runs_on_other_data_or_splits_are_no_pair(tmp_path):
    pairs(tmp_path, (2.0, 2.1))
    path = run(tmp_path, 0.9, seed=9)
    other = records.read(path)
    path.unlink()
    run(tmp_path, 0.1, ERM, seed=9)
    other["split"]["fingerprint"] = "ef" * 32
    records.write({key: other[key] for key in other if key not in ("schema", "config_hash", "digest")}, folder=tmp_path)
    assert at_demo(tmp_path, compare())["n"] == 2


# limit, near, all, open


def test_a_limit_holds_when_students_interval_keeps_away(tmp_path):
    rule = {"kind": "limit", "measure": "epsilon_hat", "of": HYPO, "below": 0.2}
    assert at_demo(tmp_path, rule)["verdict"] == "not run"
    run(tmp_path, 0.5, epsilon_hat=0.06)
    assert at_demo(tmp_path, rule)["verdict"] == "not run"
    run(
        tmp_path, 0.5, seed=1, epsilon_hat=0.08
    )  # 0.07 ± 0.01; with two runs the interval is 12.7 times that: -0.057 to 0.197
    row = at_demo(tmp_path, rule)
    assert (row["verdict"], row["evidence"]) == ("reproduced", "0.070 ± 0.010 (n = 2: cartoon; 2 seeds)")
    assert at_demo(tmp_path, rule | {"below": 0.19})["verdict"] == "not reproduced"
    above = {key: value for key, value in rule.items() if key != "below"} | {"above": -0.06}
    assert at_demo(tmp_path, above)["verdict"] == "reproduced"


def test_a_printed_number_is_held_against_whole_averages_at_paper_scale_only(tmp_path):
    near = claim(
        {"kind": "near", "measure": "ood_accuracy", "of": HYPO, "within": 1.0},
        paper={"table": "pacs", "column": "average", "algorithm": "HYPO (Ours)"},
    )
    domains = ("art_painting", "cartoon", "photo", "sketch")
    for scale, level in (("cpu", 0.88), ("paper", 0.873)):
        for seed, domain in itertools.product((0, 1), domains):
            run(tmp_path, level + seed / 100, benchmark="pacs", held_out=domain, scale=scale, seed=seed)
    run(tmp_path, 0.1, benchmark="pacs", scale="paper", seed=2)  # one domain is no average
    found = judged(tmp_path, near)
    assert [*found] == [("it", "paper")]
    row = found["it", "paper"]
    assert (row["verdict"], row["paper"]) == ("reproduced", "88%")
    assert row["evidence"] == "87.8 ± 0.5% (n = 2: 2 seeds), printed 88"
    near["rule"]["within"] = 0.1
    assert judged(tmp_path, near)["it", "paper"]["verdict"] == "not reproduced"


def test_several_claims_at_once_need_all_of_them(tmp_path):
    first, second = claim(compare(), "first"), claim(compare({"separation": False}), "second")
    whole = claim({"kind": "all", "claims": ["first", "second"]}, "whole", benchmark=None)
    pairs(tmp_path, (2.0, 2.1))
    row = judged(tmp_path, whole, first, second)["whole", "demo"]
    assert (row["verdict"], row["evidence"]) == ("not run", "reproduced: first; not run: second")
    for seed in (0, 1):
        run(tmp_path, 0.1, {"separation": False}, seed=seed)
    assert judged(tmp_path, whole, first, second)["whole", "demo"]["verdict"] == "not reproduced"


def test_what_nothing_can_decide_is_not_run_and_says_why(tmp_path):
    row = judged(tmp_path, claim({"kind": "open", "reason": "Unknown constants."}, benchmark=None))["it", ""]
    assert (row["verdict"], row["evidence"]) == ("not run", "Unknown constants.")


# the verdict over the scales


def test_the_claims_own_benchmark_goes_before_the_digits_and_the_larger_scale_before_the_smaller(tmp_path):
    def verdict():
        return overall(verdicts(tmp_path, [claim(compare())])).iloc[0]["verdict"]

    assert verdict() == "not run"
    pairs(tmp_path, (2.0, 2.1))
    assert verdict() == "reproduced (digits)"
    pairs(tmp_path, [-9.0], benchmark="pacs", scale="cpu")
    assert verdict() == "reproduced (digits)"  # one run on PACS is no verdict
    run(tmp_path, 0.6, ERM, benchmark="pacs", scale="cpu", seed=1)
    run(tmp_path, 0.5, benchmark="pacs", scale="cpu", seed=1)
    assert verdict() == "not reproduced"
    pairs(tmp_path, (2.0, 2.1), benchmark="pacs", scale="paper")
    assert verdict() == "reproduced"


# measures of embeddings, and checks


def arrays(z, y, domains, prototypes=None):
    kept = {"id_test_z": z.numpy(), "id_test_y": y.numpy(), "id_test_domain": domains.numpy()}
    return kept if prototypes is None else kept | {"prototypes": prototypes.numpy()}


def test_the_sinkhorn_divergence_is_of_stored_embeddings(tmp_path):
    y, domains = torch.arange(40) % 2, torch.arange(40) // 20
    apart = unit(40, 3)
    together = apart[:20].repeat(2, 1)
    rule = {"kind": "compare", "measure": "sinkhorn", "of": HYPO, "below": ERM}
    for seed in (0, 1):
        run(tmp_path, 0.5, seed=seed, embeddings=arrays(together, y, domains))
        run(tmp_path, 0.5, ERM, seed=seed, embeddings=arrays(apart, y, domains))
        run(tmp_path, 0.5, ERM, seed=seed + 5)  # without embeddings
    row = at_demo(tmp_path, rule)
    assert (row["verdict"], row["n"]) == ("reproduced", 2)


def test_hard_pairs_against_a_loop():
    z, y, domains = unit(60, 4), labels(60, 3, seed=1), labels(60, 2, seed=2)
    total = 0.0
    for i in range(60):
        others = [j for j in range(60) if y[j] != y[i]]
        nearest = max(others, key=lambda j: float(z[i] @ z[j]))
        total += float(domains[nearest] == domains[i]) - np.mean([float(domains[j] == domains[i]) for j in others])
    found = EMBEDDED["hard_pairs"]({"z": z, "y": y, "domains": domains})
    assert found == pytest.approx(total / 60, abs=1e-6)


def test_a_lemma_that_does_not_hold_is_not_reproduced(tmp_path):
    y, domains = torch.arange(60) % 3, torch.arange(60) // 30
    away = unit(3, 4)[y]  # every sample equally far from its prototype: no variance, yet none is near
    run(tmp_path, 0.5, embeddings=arrays(away, y, domains, unit(3, 4, seed=1)))
    assert at_demo(tmp_path, {"kind": "check", "name": "Lemma C.3"})["verdict"] == "reproduced"
    assert at_demo(tmp_path, {"kind": "check", "name": "Lemma C.3, its proof"})["verdict"] == "not reproduced"


def test_lemmas_are_judged_on_stored_embeddings_of_hypo(tmp_path):
    y, domains = torch.arange(60) % 3, torch.arange(60) // 30
    rule = {"kind": "check", "name": "Lemma C.4"}
    run(tmp_path, 0.5, ERM, embeddings=arrays(unit(60, 4), y, domains))
    assert at_demo(tmp_path, rule)["verdict"] == "not run"
    path = run(tmp_path, 0.5, embeddings=arrays(unit(60, 4), y, domains, unit(3, 4, seed=1)))
    row = at_demo(tmp_path, rule)
    assert (row["verdict"], row["n"], row["files"]) == ("reproduced", 1, path.name)
    assert re.match(r"holds in (\d+) of \1 places on 1 model; tightest: W1", row["evidence"])


@pytest.mark.parametrize("name", ["vmf", "etf"])
def test_the_mathematics_holds_and_a_wrong_loss_is_noticed(name, monkeypatch):
    assert CHECKS[name].run(None).verdict == "reproduced"
    wrong = {"vmf": "variation_loss", "etf": "separation_loss"}[name]
    right = getattr(__import__("hypo.sphere").sphere, wrong)
    monkeypatch.setattr(f"hypo.sphere.{wrong}", lambda *given: 1.01 * right(*given))
    assert CHECKS[name].run(None).verdict == "not reproduced"


# the file


WRONG = {
    "claim it lacks where": lambda c: c.pop("where"),
    "unknown key in claim it 'pge': did you mean page": lambda c: c.update(pge=c.pop("page")),
    "unknown kind of rule in claim it 'compair': did you mean compare": lambda c: c["rule"].update(kind="compair"),
    "unknown measure in claim it 'odd_accuracy': did you mean ood_accuracy": lambda c: c["rule"].update(
        measure="odd_accuracy"
    ),
    "unknown field in claim it 'tempreture': did you mean temperature": lambda c: c["rule"].update(
        of={"tempreture": 0.1}
    ),
    "unknown algorithm in claim it 'coal': did you mean coral": lambda c: c["rule"].update(above={"algorithm": "coal"}),
    "swad must be true or false, not 3": lambda c: c["rule"].update(of={"swad": 3}),
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
        ("- it", "claim it must be a mapping"),
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
        return paper(table).query("column == 'average'").set_index("algorithm")["value"]

    assert (averages("vlcs") > averages("vlcs")["HYPO (Ours)"]).any()
    assert averages("vlcs-swad")["HYPO+SWAD (Ours)"] == averages("vlcs-swad")["VNE+SWAD"]
    for given in load():
        if (
            given["id"].endswith("-best") and "paper" in given
        ):  # the margin shown is the one over the best of the others
            others = averages(given["paper"]["table"]).drop("HYPO (Ours)")
            assert given["paper"]["less"] == others.idxmax()


def test_the_table_is_tidy_and_every_verdict_has_its_evidence():
    claims, table = load(), verdicts()
    assert [*table["id"].unique()] == [given["id"] for given in claims]
    assert not table.duplicated(["id", "scale"]).any()
    assert set(table["verdict"]) <= {"reproduced", "not reproduced", "not run"}
    assert (table["evidence"] != "").all()
    assert (table.query("verdict != 'not run'")["n"] > 0).all()
    assert all(describe(given["rule"]) for given in claims)
    files = {name for row in table["files"] for name in row.split()}
    assert files <= {path.name for path in records.folder().glob("*.json")}


def test_the_short_table_counts_all_claims():
    short = summary()
    assert [*short] == ["claim", "verdict", "evidence", "page"]
    assert sum(short.attrs["counts"].values()) == len(load())
    assert len(short) == sum(given.get("headline", False) for given in load())


def test_the_page_of_a_claim_is_in_the_book():
    assert {given["page"] for given in load()} <= {path.stem for path in (TOP / "book").glob("*.ipynb")}


def test_a_claim_made_of_others_is_judged_without_them_in_the_list(tmp_path):
    every = load()
    (one, *_) = [claim for claim in every if claim["rule"]["kind"] == "all"]
    whole = verdicts(tmp_path).query("id == @one['id']").reset_index(drop=True)
    pd.testing.assert_frame_equal(verdicts(tmp_path, claims=[one]), whole)
