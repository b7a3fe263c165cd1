"""Whether the order of methods depends on the rule that chooses the weights of a run, or on its length."""

from __future__ import annotations

import pandas as pd

from hypo import paper, records, runs
from hypo.algorithms import ALGORITHMS
from hypo.report import text
from hypo.report.table import Table
from hypo.runs.statistics import rank_correlation

RULES = {"validation": "epoch chosen on validation", "last": "last epoch", "swad": "SWAD"}
LEAD = "HYPO minus ERM"
FEW = 5  # methods whose orders are written out


def by_rule(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """OOD accuracy of the methods run on a benchmark under each rule, averaged over the domains of HYPO and ERM.

    frame    runs; those at their scale's defaults where None
    Returns  one row per scale, data, row (a method, or LEAD in points) and rule, with the fields of `summarise`: of a
             method over its seeds that have all these domains, of the lead over pairs of runs. A method without such a
             seed is left out
    """
    frame = runs.load(at_defaults=True) if frame is None else frame
    here, parts = frame[(frame["benchmark"] == benchmark) & (frame["held_out"] != "")], []
    for _, own in here.groupby(["scale", "data"], sort=False):
        domains = {name: {*of["held_out"]} for name, of in own.groupby("algorithm")}
        shared = domains.get("hypo", set()) & domains.get("erm", set()) or domains.get("hypo", set())
        for rule in RULES:
            sides = {name: {"algorithm": name, "rule": rule} for name in ALGORITHMS if name in domains}
            single = {name: runs.values(own, side, "ood_accuracy") for name, side in sides.items()}
            rows = {
                name: runs.averages(of.assign(column=of["held_out"]), [*shared], ["scale", "data", "seed"])
                for name, of in single.items()
            }
            if {"hypo", "erm"} <= {*sides}:
                rows[LEAD] = runs.leads(own, sides["hypo"], sides["erm"])
            parts += [of.assign(row=name, rule=rule) for name, of in rows.items()]
    columns = ["scale", "data", "row", "rule"]
    single = pd.concat(parts) if parts else runs.values(here[:0], {}, "ood_accuracy").assign(row="", rule="")
    return runs.summarise(single, columns)


def table(benchmark: str, frame: pd.DataFrame | None = None) -> Table:
    """`by_rule` as a page shows it."""
    found = by_rule(benchmark, frame)
    cells = [text.difference(line) if line.row == LEAD else text.cell(line, own_n=True) for line in found.itertuples()]
    names = [name if name == LEAD else paper.method_name(name) for name in found["row"]]
    wide = found.assign(cell=cells, method=names, rule=found["rule"].map(RULES))
    shown = wide.pivot_table(index=["scale", "method"], columns="rule", values="cell", aggfunc="first", sort=False)
    shown = shown.rename_axis(columns=None).reset_index()
    caption = (
        f"OOD accuracy in % on {text.data(benchmark)} under three rules that choose the weights of a run: mean over "
        "held-out domains ± standard deviation over n seeds. Methods that lack a domain of HYPO and ERM are left out. "
        "Differences are in points over pairs of runs, with 95% intervals."
    )
    return Table(shown, f"rules-{benchmark}", caption, found["origins"], found, labels=2)


def order(benchmark: str, frame: pd.DataFrame | None = None) -> str:
    """A sentence per scale: the methods under each rule, the best first, or how far the orders of many agree; or that
    there are none to compare."""
    found, said = by_rule(benchmark, frame).query("row != @LEAD"), []
    for (scale, _), own in found.groupby(["scale", "data"], sort=False):
        values = own.pivot_table(index="row", columns="rule", values="value", sort=False)[[*RULES]]
        orders = {
            rule: tuple(paper.method_name(name) for name in of.sort_values(ascending=False, kind="stable").index)
            for rule, of in values.items()
        }
        if len(values) < 2 or "hypo" not in values.index:
            continue
        where = f"On {text.data(benchmark)} at {scale} scale"
        if len({*orders.values()}) == 1:
            said.append(f"{where} the order is the same under every rule: {', '.join(next(iter(orders.values())))}.")
        elif len(values) <= FEW:
            each = [f"{', '.join(names)} ({RULES[rule]})" for rule, names in orders.items()]
            said.append(f"{where} the order depends on the rule: {'; '.join(each)}.")
        else:
            first, *others = RULES
            agree = [f"{_agreement(values[first], values[rule])} for {RULES[rule]}" for rule in others]
            places = [f"{text.ordinal(1 + names.index('HYPO'))} ({RULES[rule]})" for rule, names in orders.items()]
            said.append(
                f"{where} the order of {len(values)} methods depends on the rule. The rank correlation with the order "
                f"by the {RULES[first]} is {text.listed(agree)}; HYPO is {text.listed(places)}."
            )
    return (
        " ".join(said) or f"On {text.data(benchmark)} no two methods were run on the same domains: there is no order."
    )


def _agreement(first: pd.Series, second: pd.Series) -> str:
    return text.number(rank_correlation(first, second).value, 2, sign=True)


def alike(frame: pd.DataFrame, run: pd.Series) -> pd.DataFrame:
    """The runs on the data of `run` at its scale's defaults."""
    same = (frame["benchmark"] == run["benchmark"]) & (frame["scale"] == run["scale"])
    return frame[same & frame["at_defaults"].astype(bool)]


def valley_example(frame: pd.DataFrame, run: pd.Series) -> pd.Series:
    """Of the runs like `run` the one whose valley begins latest and holds several evaluations; `run` if none does."""
    here = alike(frame, run)
    several = here["swad.interval"].map(lambda span: bool(span["valley"]) and span["evaluations"] > 2)
    wide = here[several.astype(bool)]
    starts = wide["swad.interval"].map(lambda span: span["first"] / span["last"])
    return wide.loc[starts.idxmax()] if len(wide) else run


def valleys(frame: pd.DataFrame, example: pd.Series, run: pd.Series) -> str:
    """What SWAD averages in an example and in a run of a page, and how many of all runs have no valley."""
    held_out = f"with {text.words(example['held_out'])} held out" if example["held_out"] else "on all domains"
    which = f"{paper.method_name(example['algorithm'])} {held_out}, seed {example['seed']}"
    said = [f"The figure is of a run of {which}. {_averaged(example, 'It')}"]
    if example["config_hash"] != run["config_hash"]:
        said.append(f"The run of this page is another one. {_averaged(run, 'It')}")
    here = alike(frame, run)
    flat = here[[not each["valley"] for each in here["swad.interval"]]]
    each = [
        f"{paper.method_name(name)} {(flat['algorithm'] == name).sum()} of {len(own)}"
        for name, own in here.groupby("algorithm", sort=False)
    ]
    where = f"the {len(here)} recorded runs on {text.data(run['benchmark'])} at {run['scale']} scale and its defaults"
    said.append(f"Of {where}, {len(flat)} {'has' if len(flat) == 1 else 'have'} no valley ({', '.join(each)})")
    return " ".join(said) + "; what SWAD stands for in these is the last evaluation, not an average."


def _averaged(run: pd.Series, subject: str) -> str:
    span = run["swad.interval"]
    if not span["valley"]:
        return f"{subject} has no valley: the loss falls to the end, and only the last evaluation is averaged."
    early = ", so unfinished weights are averaged too" if span["starts_at_first"] else ""
    return f"{subject} has a valley in {text.epochs(span)}, with {span['evaluations']} evaluations{early}."


def by_epoch(run: pd.Series, frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on the held-out domain after each epoch, in percent, of HYPO's and ERM's runs on the data of `run`.

    frame    runs of any setting; those that change nothing but `epochs` are taken
    Returns  one row per run and epoch: method, epochs (length of the run), seed, epoch, value, origins
    """
    same = (frame[["benchmark", "data", "scale", "held_out"]] == run[["benchmark", "data", "scale", "held_out"]]).all(
        axis=1
    )
    here, rows = frame[same & frame["algorithm"].isin(["hypo", "erm"])], []
    for _, own in here[[set(changed) <= {"epochs"} for changed in here["changed"]]].iterrows():
        for each in records.read(own["path"])["epochs"]:
            if (accuracy := each["ood_test"]["accuracy"]) is not None:
                known = {"method": paper.method_name(own["algorithm"]), "epochs": own["epochs"], "seed": own["seed"]}
                rows.append(known | {"epoch": each["epoch"], "value": 100 * accuracy, "origins": own["origins"]})
    return pd.DataFrame(rows, columns=["method", "epochs", "seed", "epoch", "value", "origins"])
