"""Runs that the plan lists, next to what came of them: which starts lead into the heap, and which train best.

The plan, data/evidence.yml, says what there is to show; a run without a record is shown as not run.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from hypo.config import MAIN, changed
from hypo.report import text
from hypo.report.table import Table
from hypo.runs import CONFIDENCE, Estimate, estimate
from hypo.runs.frame import COLLAPSED
from hypo.training.evidence import configured, groups

CONSTANT, FALLING = "constant τ", "τ falls from 1"
"""The paper's start, and the default here at demo and cpu scale."""
START = ("start_temperature", "start_share", "centre", "freeze", "warmup")
"""Fields that say how a training starts."""
RATES = ["lr", "head_lr"]


def planned(frame: pd.DataFrame, *headings: str) -> pd.DataFrame:
    """The runs that the plan lists under these headings, each once: what they are, and what is recorded of them.

    benchmark, algorithm, held_out, scale, seed, lr and head_lr as configured; fields: all of the configuration
    usual            whether all is at the scale's defaults
    start, setting   what is changed of them, as text: by fields of START, and by all others
    validation       accuracy in percent of the weights selected on validation; chance: of guessing; NaN where not run
    in_heap, failed  as of `runs.load`; cosine: mean of two prototypes, of the same weights; NaN likewise
    origins          the record, none where it was not run
    """
    known = {_key(run): run for _, run in frame.iterrows()}
    rows: dict[Any, dict[str, Any]] = {}
    plan = groups()
    for settings in (settings for heading in headings for settings in plan[heading]):
        fields = configured(settings).fields()
        different = changed(fields)
        row = {name: fields[name] for name in (*MAIN, *RATES)} | {"fields": fields, "usual": not different}
        row["start"] = _start(fields, different)
        row["setting"] = text.settings({name: value for name, value in different.items() if name not in START})
        key = _key(row | {"held_out": fields["held_out"] or "", "changed": different})
        row |= dict.fromkeys(("validation", "chance", "in_heap", "failed", "cosine"), float("nan")) | {"origins": ()}
        if (run := known.get(key)) is not None:
            row["validation"] = 100 * run["validation.validation_accuracy"]
            row |= {"chance": 100 / len(run["classes"]), "cosine": 1 - run["validation.separation"]}
            row |= {name: float(run[name]) for name in ("in_heap", "failed")} | {"origins": run["origins"]}
        rows[key] = row
    return pd.DataFrame([*rows.values()])


def _key(run: Any) -> tuple[Any, ...]:
    return (*(run[name] for name in MAIN), frozenset(run["changed"].items()))


def _start(fields: dict[str, Any], different: dict[str, Any]) -> str:
    """The start in words, other fields than the temperature only where changed; nothing for a method without one."""
    if "start_temperature" not in fields:
        return ""
    begins = fields["start_temperature"]
    words = CONSTANT if begins is None else f"τ falls from {begins:g}"
    if begins is not None and "start_share" in different:
        words += f" over {fields['start_share']:.0%} of the training"
    added = {"centre": "centred head", "freeze": "backbone frozen for {:g} epoch", "warmup": "warm-up of {:g} epochs"}
    return ", ".join([words, *(added[name].format(different[name]) for name in added if name in different)])


def failures_by_start(frame: pd.DataFrame, *headings: str) -> Table:
    """How many runs are in the heap after a fifth of the training, how many failed, and their validation accuracy: one
    row per setting, of HYPO where no other method is named, and three columns per start."""
    found = planned(frame, *headings)
    shown = {}
    for (algorithm, setting), group in found.groupby(["algorithm", "setting"], sort=False):
        name = ("" if algorithm == "hypo" else f"{text.method_name(algorithm)}, ") + (setting or "the defaults")
        shown[name] = {}
        for start in dict.fromkeys(found["start"]):
            shown[name] |= {f"{start}: {what}": cell for what, cell in _cells(group[group["start"] == start]).items()}
    name = f"failed-{headings[0].replace(', ', '-').replace(' ', '-')}"
    return _table(found, pd.DataFrame(shown).T.rename_axis("setting"), name)


def starts(frame: pd.DataFrame, setting: str, *headings: str) -> Table:
    """Every planned start at one setting, such as "hard_negatives=false", on the seeds that are planned for all: one
    row each, with the lead over the default in pairs of runs of one seed."""
    found = _of_one_setting(frame, setting, *headings)
    shown = {start: _cells(own) for start, own in found.groupby("start", sort=False)}
    for start, lead in _leads(found).items():
        shown[start]["ahead of the default (points)"] = _lead(lead)
    made = pd.DataFrame(shown).T.rename_axis("start").fillna("")
    table = _table(found, made, "failed-by-start")
    return dataclasses.replace(table, caption=f"{table.caption} Leads have 95% intervals of paired differences.")


def starts_in_words(frame: pd.DataFrame, setting: str, *headings: str) -> str:
    """Which starts of `starts` are ahead of the default on validation images, and whether seeds may explain it."""
    found = _of_one_setting(frame, setting, *headings)
    usual = found[found["start"] == FALLING].dropna(subset="validation")
    leads = dict(sorted(_leads(found).items(), key=lambda item: -item[1].value))
    if usual.empty or not leads:
        return "The starts cannot be compared yet, since the default or all others were not run."
    said = [f"With the default, {FALLING}, validation accuracy is {text.number(usual['validation'].mean())}%."]
    ahead = {start: lead for start, lead in leads.items() if lead.value > 0}
    many = f"{len(ahead)} of the {len(leads)} other starts" if ahead else f"None of the {len(leads)} other starts"
    each = [f"{start} by {_lead(lead, ' points')}" for start, lead in ahead.items()]
    which = f": {'; '.join(each)}" if each else ""
    said.append(f"{many} {'is' if len(ahead) < 2 else 'are'} ahead{which}.")
    clear = [start for start, lead in ahead.items() if lead.low > 0]
    if ahead and not clear:
        said.append("Every one of these intervals includes zero, so all leads are within the spread of the seeds.")
    elif clear:
        rest = "; all other leads are within the spread of the seeds" if len(clear) < len(ahead) else ""
        said.append(
            f"The interval excludes zero for {text.listed(clear)}{rest}. Of {len(leads)} intervals of "
            f"{CONFIDENCE:.0%}, {(1 - CONFIDENCE) * len(leads):.1f} are expected to miss the truth by chance."
        )
    return " ".join(said)


def _of_one_setting(frame: pd.DataFrame, setting: str, *headings: str) -> pd.DataFrame:
    """HYPO's planned runs at one setting, of the seeds that are planned for each of its starts."""
    found = planned(frame, *headings)
    found = found[(found["algorithm"] == "hypo") & (found["setting"] == setting)]
    shared = set.intersection(*({*own["seed"]} for _, own in found.groupby("start")))
    return found[found["seed"].isin(shared)]


def _leads(found: pd.DataFrame) -> dict[str, Estimate]:
    """How far each start is ahead of the default in validation accuracy, over the seeds that both were run with."""
    by_seed = found.pivot(index="seed", columns="start", values="validation")[[*dict.fromkeys(found["start"])]]
    pairs = by_seed.drop(columns=FALLING).sub(by_seed[FALLING], axis=0)
    return {start: estimate(own.dropna()) for start, own in pairs.items() if own.notna().any()}


def _lead(lead: Estimate, unit: str = "") -> str:
    return text.number(lead.value, sign=True) + unit + text.interval(lead, sign=True)


def endings(frame: pd.DataFrame, start: str, *headings: str) -> str:
    """Of the runs with a start: how many are in the heap after a fifth of the training, and how they and others end."""
    found = planned(frame, *headings)
    run = found[(found["start"] == start) & found["failed"].notna()]
    heap, failed = run[run["in_heap"] > 0], run[run["failed"] > 0]
    if run.empty:
        return f"With the start “{start}” nothing was run."
    stuck, well = heap[heap["failed"] > 0], heap[heap["failed"] == 0]
    still, late = well[well["cosine"] > COLLAPSED], well[~(well["cosine"] > COLLAPSED)]
    many = f"{len(heap) or 'none'} of {len(run)} runs"
    said = [f"With the start “{start}”, {many} are in the heap after a fifth of the training."]
    if len(heap):
        said.append(f"{len(stuck) or 'None'} of these {len(heap)} failed.")
    if len(late):
        many = f"{len(late)} left the heap later and end" if len(late) > 1 else "One left the heap later and ends"
        said.append(f"{many} at a validation accuracy of {_range(late['validation'])}%.")
    if len(still):
        many = f"{len(still)} stay there and tell" if len(still) > 1 else "One stays there and tells"
        said.append(f"{many} classes apart all the same: {_range(still['validation'])}% on validation.")
    other = failed[failed["in_heap"] == 0]
    each = [
        f"{setting or 'the defaults'} in {len(own)} of {(run['setting'] == setting).sum()} "
        f"(mean cosine of the prototypes {own['cosine'].mean():.2f})"
        for setting, own in other.groupby("setting", sort=False)
    ]
    above = failed.loc[failed["validation"] >= 2 * failed["chance"], "validation"]
    if len(above):
        said.append(
            f"{len(above)} of the failed {'ends' if len(above) == 1 else 'end'} with prototypes close together and at "
            f"{_range(above)}% on validation, not below twice chance."
        )
    if each:
        said.append(f"{len(other)} failed without being in the heap then: {'; '.join(each)}.")
    elif not len(failed):
        said.append("None failed.")
    return " ".join(said)


def _range(values: pd.Series) -> str:
    low, high = (text.number(value) for value in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def elsewhere(frame: pd.DataFrame, benchmark: str, scale: str) -> str:
    """One sentence: how many HYPO runs on a benchmark were in the heap after a fifth of the training, and how many
    failed, with each start, whatever else they change."""
    here = frame[(frame["benchmark"] == benchmark) & (frame["scale"] == scale) & (frame["algorithm"] == "hypo")]
    place = f"On {text.data(benchmark)} at {scale} scale"
    if here.empty:
        return f"{place} nothing was run."
    begins = ["a constant τ" if pd.isna(value) else f"τ falling from {value:g}" for value in here["start_temperature"]]
    counts = here.groupby(begins).agg(heap=("in_heap", "sum"), failed=("failed", "sum"), size=("failed", "size"))
    each = [f"{c.heap} and {c.failed} of {c.size} with {c.Index}" for c in counts.itertuples()]
    return f"{place}, runs in the heap after a fifth of the training, and failed ones: {text.listed(each)}."


def planned_starts(frame: pd.DataFrame, benchmark: str) -> str:
    """One sentence: the starts of HYPO that the whole plan has on a benchmark, and how many runs of each are made."""
    found = planned(frame, *groups())
    found = found[(found["benchmark"] == benchmark) & (found["algorithm"] == "hypo")]
    counts = found.groupby("start", sort=False)["validation"].agg(["count", "size"]).itertuples()
    each = [f"{c.Index} ({c.count} of {c.size} runs are on record)" for c in counts]
    return f"On {text.data(benchmark)} the plan has no other starts than these: {text.listed(each)}."


def _table(found: pd.DataFrame, shown: pd.DataFrame, name: str) -> Table:
    (place,) = {*zip(found["benchmark"], found["scale"], found["held_out"], strict=True)}
    benchmark, scale, held_out = place
    caption = (
        f"Runs on {text.data(benchmark)}, {scale} scale, {text.words(held_out)} held out. Heap: the prototypes' mean "
        f"cosine is above {COLLAPSED:g} after a fifth of the training. Failed: it is so at the end "
        "for a method that predicts by prototypes, or validation accuracy is below twice chance. Validation: mean ± "
        "standard deviation over the runs there are, failed ones among them."
    )
    return Table(shown, name, caption, found["origins"], found.drop(columns="fields"))


def _cells(own: pd.DataFrame) -> dict[str, str]:
    """Runs of one setting and start as three cells of a table."""
    run = own.dropna(subset="failed")
    if run.empty:
        return dict.fromkeys(("heap", "failed", "validation (%)"), text.NOT_RUN)
    counts = {
        name: f"{run[column].sum():.0f} of {len(run)}" for name, column in (("heap", "in_heap"), ("failed", "failed"))
    }
    around = f" ± {text.number(run['validation'].std())}" if len(run) > 1 else ""
    return counts | {"validation (%)": text.number(run["validation"].mean()) + around}
