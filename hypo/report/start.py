"""Runs that the plan lists, next to what came of them: how often a start fails to train, and the trials of the search.

The plan, data/evidence.yml, says what there is to show; a run without a record is shown as not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from hypo.algorithms import ALGORITHMS
from hypo.config import MAIN, changed, configure
from hypo.report import text
from hypo.report.table import Table
from hypo.runs.frame import COLLAPSED
from hypo.training.evidence import configured, groups

START = ("start_temperature", "start_share", "centre", "freeze", "warmup")
"""Fields that say how a training starts."""
RATES = ["lr", "head_lr"]
TRIAL = [*RATES, "besides"]
"""What tells trials of a search apart."""
SEARCH = ("search", "search, other methods")
"""Headings of the trials on PACS."""


def planned(frame: pd.DataFrame, *headings: str) -> pd.DataFrame:
    """The runs that the plan lists under these headings, each once: what they are, and what is recorded of them.

    benchmark, algorithm, held_out, scale, seed, lr and head_lr as configured
    start, setting      what is changed of the scale's defaults, as text: by fields of START, and by all others
    besides             likewise, by all fields but those of RATES
    validation, failed  accuracy in percent of the weights selected on validation, whether the run failed to train; NaN
                        where it was not run
    cosine              mean cosine of two prototypes at the end; NaN likewise
    origins             the record, none where it was not run
    """
    known = {_key(run): run for _, run in frame.iterrows()}
    rows: dict[Any, dict[str, Any]] = {}
    plan = groups()
    for settings in (settings for heading in headings for settings in plan[heading]):
        fields = configured(settings).fields()
        different = changed(fields)
        row = {name: fields[name] for name in (*MAIN, *RATES)}
        row["start"] = _start(fields, different)
        row["setting"] = text.settings({name: value for name, value in different.items() if name not in START})
        beside = {name: value for name, value in different.items() if name not in RATES}
        row["besides"] = text.settings(beside)
        key = _key(row | {"held_out": fields["held_out"] or "", "changed": different})
        run = known.get(key)
        row |= {"validation": float("nan"), "failed": float("nan"), "cosine": float("nan"), "origins": ()}
        if run is not None:
            row["validation"] = 100 * run["validation.validation_accuracy"]
            row |= {"failed": float(run["failed"]), "cosine": 1 - run["validation.separation"]}
            row["origins"] = run["origins"]
        rows[key] = row
    return pd.DataFrame([*rows.values()])


def _key(run: Any) -> tuple[Any, ...]:
    return (*(run[name] for name in MAIN), frozenset(run["changed"].items()))


def _start(fields: dict[str, Any], different: dict[str, Any]) -> str:
    """The start in words, other fields than the temperature only where changed; nothing for a method without one."""
    if "start_temperature" not in fields:
        return ""
    begins = fields["start_temperature"]
    words = "constant τ" if begins is None else f"τ falls from {begins:g}"
    if begins is not None and "start_share" in different:
        words += f" over {fields['start_share']:g} of the training"
    added = {"centre": "centred head", "freeze": "backbone frozen for {:g} epoch", "warmup": "warm-up of {:g} epochs"}
    return ", ".join([words, *(added[name].format(different[name]) for name in added if name in different)])


def failures_by_start(frame: pd.DataFrame, *headings: str) -> Table:
    """How many runs failed to train, and their validation accuracy: one row per setting, of HYPO where no other method
    is named, and two columns per start."""
    found = planned(frame, *headings)
    shown = {}
    for (algorithm, setting), group in found.groupby(["algorithm", "setting"], sort=False):
        name = ("" if algorithm == "hypo" else f"{text.method_name(algorithm)}, ") + (setting or "the defaults")
        shown[name] = {}
        for start in dict.fromkeys(found["start"]):
            own = group[group["start"] == start]
            shown[name] |= {f"{start}: failed": _failed(own), f"{start}: validation (%)": _validation(own)}
    name = f"failed-{headings[0].replace(', ', '-').replace(' ', '-')}"
    return _table(found, pd.DataFrame(shown).T.rename_axis("setting of HYPO"), name)


def starts(frame: pd.DataFrame, setting: str, *headings: str) -> Table:
    """Every planned start at one setting, such as "hard_negatives=false": one row each."""
    found = planned(frame, *headings)
    found = found[(found["algorithm"] == "hypo") & (found["setting"] == setting)]
    shown = {
        start: {"failed": _failed(own), "validation (%)": _validation(own)}
        for start, own in found.groupby("start", sort=False)
    }
    return _table(found, pd.DataFrame(shown).T.rename_axis("start"), "failed-by-start")


def in_spite_of(frame: pd.DataFrame, start: str, *headings: str) -> str:
    """One sentence: which settings fail to train with this start, and whether their prototypes are in one heap."""
    found = planned(frame, *headings)
    run = found[(found["start"] == start) & found["failed"].notna()]
    said = []
    for setting, group in run.groupby("setting", sort=False):
        failed = group[group["failed"] > 0]
        if len(failed):
            cosine = failed["cosine"].mean()
            where = "so they lie in the heap" if cosine > COLLAPSED else "so this is not the heap"
            count = f"{len(failed)} of {len(group)}"
            said.append(f"{setting or 'the defaults'} in {count} (mean cosine of the prototypes {cosine:.2f}, {where})")
    count = int((run["failed"] > 0).sum())
    if run.empty:
        return f"Where {start}, nothing was run."
    if not said:
        return f"Where {start}, none of the {len(run)} runs failed to train."
    return f"Where {start}, {count} of {len(run)} runs failed to train all the same: {'; '.join(said)}."


def elsewhere(frame: pd.DataFrame, benchmark: str, scale: str) -> str:
    """One sentence: how many HYPO runs on a benchmark failed to train with each start, whatever else they change."""
    here = frame[(frame["benchmark"] == benchmark) & (frame["scale"] == scale) & (frame["algorithm"] == "hypo")]
    place = f"On {text.data(benchmark)} at {scale} scale"
    if here.empty:
        return f"{place} nothing was run."
    starts = ["a constant τ" if pd.isna(value) else f"τ falling from {value:g}" for value in here["start_temperature"]]
    counts = here.groupby(starts)["failed"].agg(["sum", "size"]).itertuples()
    return (
        f"{place} "
        + text.listed([f"{c.sum:.0f} of {c.size} runs with {c.Index} failed to train" for c in counts])
        + "."
    )


def _table(found: pd.DataFrame, shown: pd.DataFrame, name: str) -> Table:
    (place,) = {*zip(found["benchmark"], found["scale"], found["held_out"], strict=True)}
    benchmark, scale, held_out = place
    caption = (
        f"Runs on {text.data(benchmark)}, {scale} scale, {text.words(held_out)} held out. Failed: the prototypes' mean "
        f"cosine is above {COLLAPSED:g} after a fifth of the training, or validation accuracy is below twice chance. "
        "Validation: mean ± standard deviation over the runs there are, failed ones among them."
    )
    return Table(shown, name, caption, found["origins"], found)


def _failed(own: pd.DataFrame) -> str:
    run = own.dropna(subset="failed")
    return f"{run['failed'].sum():.0f} of {len(run)}" if len(run) else text.NOT_RUN


def _validation(own: pd.DataFrame) -> str:
    accuracy = own["validation"].dropna()
    if accuracy.empty:
        return text.NOT_RUN
    return text.number(accuracy.mean()) + (f" ± {text.number(accuracy.std())}" if len(accuracy) > 1 else "")


def trials(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> pd.DataFrame:
    """The runs of the search for rates, without any number of held-out images: those of `planned`, and `chosen`.

    chosen  of each method, the trial with the highest validation accuracy, of equal ones that with the smaller lr, then
            the smaller head_lr; none while a trial of the method is missing
    """
    found = planned(frame, *headings).drop(columns=["start", "setting", "cosine"])
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    found = found.sort_values(["algorithm", *RATES], key=lambda c: c.map(order) if c.name == "algorithm" else c)
    found = found.reset_index(drop=True)
    best = found.sort_values(["validation", *RATES], ascending=[False, True, True]).drop_duplicates("algorithm")
    complete = found.groupby("algorithm")["validation"].transform(lambda values: values.notna().all())
    return found.assign(chosen=found.index.isin(best.index) & complete)


def search_table(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> Table:
    """Validation accuracy of every trial of a search: one row per method, one column per pair of rates, and which pair
    was chosen."""
    found = trials(frame, headings)
    found = found.assign(rates=[_rates(*trial) for trial in found[TRIAL].itertuples(index=False)])
    cells = found.assign(cell=[text.number(value) or text.NOT_RUN for value in found["validation"]])
    shown = cells.pivot(index="algorithm", columns="rates", values="cell").fillna("")
    shown = shown.loc[[*dict.fromkeys(found["algorithm"])], [*dict.fromkeys(found.sort_values(TRIAL)["rates"])]]
    shown["chosen"] = found[found["chosen"]].set_index("algorithm")["rates"].reindex(shown.index).fillna("")
    shown.index = pd.Index([text.method_name(name) for name in shown.index], name="method")
    (place,) = {*zip(found["benchmark"], found["scale"], found["held_out"], found["seed"], strict=True)}
    benchmark, scale, held_out, seed = place
    apart = f"{text.words(held_out)} held out and not looked at" if held_out else "corruptions not looked at"
    caption = (
        f"{text.data(benchmark)}, {scale} scale, {apart}, seed {seed}: accuracy in percent on validation images of "
        "what was trained on, by learning rate (times how much for new layers). One whole run each."
    )
    return Table(shown.rename_axis(columns=None), f"search-{benchmark}", caption, found["origins"], found)


def search_in_words(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> str:
    """How many trials each method had, and which rates were chosen for how many of them."""
    found = trials(frame, headings)
    counts = found.groupby("algorithm", sort=False).size()
    numbers = [f"{text.method_name(name)} {count}" for name, count in counts.items()]
    said = [f"Numbers of trials: {text.listed(numbers)}."]
    if counts.nunique() == 1:
        said = [f"Each of {len(counts)} methods has {counts.iloc[0]} trials."]
    chosen = found[found["chosen"]]
    for (lr, head, besides), own in chosen.groupby(TRIAL):
        names = [text.method_name(name) for name in own["algorithm"]]
        whose = f"all {len(names)}" if len(names) == len(counts) else text.listed(names)
        factor = f", with {head:g} times that for new layers," if head != 1 else ""
        more = f" and {besides}" if besides else ""
        said.append(f"A rate of {lr:g}{factor}{more} was chosen for {whose}.")
    missing = [text.method_name(name) for name in counts.index if name not in set(chosen["algorithm"])]
    if missing:
        said.append(f"Trials of {text.listed(missing)} are missing, so nothing is chosen for them yet.")
    usual = {best.algorithm: configure(*(getattr(best, field) for field in MAIN)) for best in chosen.itertuples()}
    other = [
        text.method_name(best.algorithm)
        for best in chosen.itertuples()
        if (best.lr, best.head_lr, best.besides) != (usual[best.algorithm].lr, usual[best.algorithm].head_lr, "")
    ]
    if other:
        said.append(f"The defaults of the scale differ from that for {text.listed(other)}.")
    elif usual:
        said.append("What was chosen is the default of the scale.")
    return " ".join(said)


def _rates(lr: float, head_lr: float, besides: str) -> str:
    """A trial in short: 0.003 (× 3), weight=2."""
    return f"{lr:g}" + (f" (× {head_lr:g})" if head_lr != 1 else "") + (f", {besides}" if besides else "")
