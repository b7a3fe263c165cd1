"""All methods on one benchmark: our averages and ranks next to the paper's, and how far the two orders agree."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hypo import paper, runs
from hypo.algorithms import ALGORITHMS, NOT_TRAINABLE, method
from hypo.data.benchmarks import REGISTRY
from hypo.report import text
from hypo.report.benchmarks import columns_of, numbers
from hypo.report.table import PAPER, Table
from hypo.runs.statistics import CONFIDENCE, Correlation, estimate, least_lead, rank_correlation
from hypo.training.evaluate import CHUNK

MANY = 10
"""Comparisons from which on chance is worth a sentence."""


def standings(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every method that the paper prints on a benchmark or that is registered, at each scale that has runs.

    frame    runs; those at their scale's defaults where None
    Returns  one row per method and scale (and version of the images), the best printed average first: algorithm, scale,
             data, paper, paper_rank, value (our average over all domains, in percent; NaN where one is missing), rank
             among ours if there are two, sd, n, failed, starts_at_first, origins, columns, how many domains were run,
             and validation, the accuracy in percent there. Where nothing was run there is one scale, "".
    """
    frame = runs.load(at_defaults=True) if frame is None else frame
    found = numbers(benchmark, frame)
    averages, ours = found[found["column"] == "average"], found[found["who"] == "ours"]
    printed = averages[averages["who"] == "paper"].set_index("algorithm")["value"].sort_values(ascending=False)
    names = pd.Index(dict.fromkeys([*printed.index, *ALGORITHMS]), name="algorithm")
    label = paper.TABLES.get(benchmark)
    placed = paper.ranks(label)["average"]["rank"] if label else printed
    parts = []
    for (scale, data), own in ours.groupby(["scale", "data"], sort=False) if len(ours) else [(("", ""), ours)]:
        whole = own[own["column"] == "average"].set_index("algorithm")
        part = whole[["value", "sd", "n", "failed", "starts_at_first", "origins"]].reindex(names)
        tested = own[own["column"] != "average"].groupby("algorithm")["column"].nunique()
        part = part.assign(scale=scale, data=data, columns=tested.reindex(names).fillna(0).astype(int))
        made = frame[(frame["benchmark"] == benchmark) & (frame["scale"] == scale) & (frame["data"] == data)]
        cells = made.groupby(["algorithm", "held_out"])["validation.validation_accuracy"].mean()
        part["validation"] = 100 * cells.groupby("algorithm").mean().reindex(names)
        alone = part["value"].count() < 2  # first of one is no rank
        part["rank"] = float("nan") if alone else part["value"].rank(ascending=False, method="min")
        parts.append(part.assign(paper=printed.reindex(names), paper_rank=placed.reindex(names)))
    return pd.concat(parts).reset_index()


def table(benchmark: str, frame: pd.DataFrame | None = None) -> Table:
    """`standings` as a page shows them: the paper's average and rank, then ours; what was not run says so."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    found, total = standings(benchmark, frame), len(columns_of(benchmark, frame))
    first, printed = found.drop_duplicates("algorithm"), found["paper"].notna().any()
    shown = pd.DataFrame({"method": [paper.method_name(name) for name in first["algorithm"]]})
    if printed:
        shown["the paper's"] = [text.number(value) or "none" for value in first["paper"]]
        shown["its rank"] = [text.number(rank, 0) for rank in first["paper_rank"]]
    for (scale, data), own in found.groupby(["scale", "data"], sort=False):
        version = f", data {data[:8]}" if found["data"].nunique() > 1 else ""
        where = f", {scale} scale{version}" if scale else ""
        cells = [text.cell(line, own_n=True, missing=_missing(line, total)) for line in own.itertuples()]
        shown[f"ours{where}"] = cells
        shown[f"validation{where}"] = [text.number(value) for value in own["validation"].where(own["value"].notna())]
        shown[f"our rank{where}"] = [text.number(rank, 0) for rank in own["rank"]]
    if not printed:
        shown = shown.iloc[first["rank"].fillna(len(first)).argsort(kind="stable")].reset_index(drop=True)
    in_company = text.listed([paper.method_name(name) for name in ALGORITHMS if method(name).needs_batch])
    caption = (
        f"OOD accuracy in % on {text.data(benchmark)}, averaged over {total} held-out domains, of every method"
        f"{' in the order of the printed average' if printed else ''}. Ours: mean ± standard deviation over n seeds, "
        "selected on training-domain validation; ranks are among what was run. Validation: accuracy there. "
        f"{in_company} predict from up to {CHUNK} images of a domain at a time, without labels; the others from one."
    )
    also = (PAPER,) if printed else ()
    return Table(shown, f"standings-{benchmark}", caption, found["origins"].dropna(), found, also=also)


def agreement(benchmark: str, frame: pd.DataFrame | None = None) -> str:
    """One sentence per scale: Spearman's correlation of our averages with the paper's, or why there is none."""
    said = []
    for (scale, _), own in standings(benchmark, frame).groupby(["scale", "data"], sort=False):
        both = own.dropna(subset=["paper", "value"])
        where = " ".join(filter(None, [text.data(benchmark), scale and f"at {scale} scale"]))
        opening = f"**{where}**: of the {own['paper'].notna().sum()} methods that the paper prints"
        if not own["columns"].any():
            said.append(f"**{where}**: nothing was run.")
        elif len(both) < 2:
            count = "one was" if len(both) else "none was"
            said.append(f"{opening}, {count} run on every held-out domain, so there are no ranks to compare.")
        else:
            rho = correlation(rank_correlation(both["paper"], both["value"]))
            said.append(
                f"{opening}, {len(both)} were run on every held-out domain. The rank correlation between the printed "
                f"averages and ours is {rho}. {_spread(both)}"
            )
    return "\n".join(said)


def comparisons(benchmark: str, algorithm: str = "hypo", frame: pd.DataFrame | None = None) -> str:
    """One line per scale: which methods a method is ahead of or behind, by the interval of its lead in paired runs, and
    with which it shares one seed per domain, so that there is no interval."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    said, name = [], paper.method_name(algorithm)
    for (scale, _), own in frame[frame["benchmark"] == benchmark].groupby(["scale", "data"], sort=False):
        sides: dict[str, list[str]] = {"ahead of": [], "behind": [], "not told apart from": [], "one seed": []}
        for other in (other for other in ALGORITHMS if other != algorithm):
            pairs = runs.leads(own, {"algorithm": algorithm}, {"algorithm": other})
            if len(pairs):
                lead = estimate(pairs["value"], pairs["held_out"])
                undecided = "not told apart from" if lead.df else "one seed"
                side = "ahead of" if lead.low > 0 else "behind" if lead.high < 0 else undecided
                only = f" ({text.number(lead.value, sign=True)})" if side == "one seed" else ""
                sides[side].append(paper.method_name(other) + only)
        single = sides.pop("one seed")
        decided = [f"{side} {text.listed(others)}" for side, others in sides.items() if others]
        parts = [f"{name} is {', '.join(decided)}."] if decided else []
        if (known := sum(map(len, sides.values()))) >= MANY:
            chance = text.number((1 - CONFIDENCE) * known, 0)
            parts.append(f"Of {known} methods as good as {name}, {chance} would be called different by chance.")
        if single:
            parts.append(
                f"With {text.listed(single)} it shares one seed per domain, so its lead, in brackets, has no interval."
                f"{_yardstick(own, len(single))}"
            )
        if parts:
            where = _at(benchmark, scale)
            said.append(f"{where}, by the 95% interval of each lead in paired runs: {' '.join(parts)}")
    return "\n".join(said)


def _at(benchmark: str, scale: str) -> str:
    """**The digits at demo scale**, to begin a line with."""
    where = f"{text.data(benchmark)} at {scale} scale"
    return f"**{where[0].upper()}{where[1:]}**"


def _yardstick(own: pd.DataFrame, at_once: int) -> str:
    """By how much averages of one seed must differ, going by the seeds of methods that have several; or nothing."""
    columns = columns_of(own["benchmark"].iloc[0], own)
    single = runs.accuracies(own).query("column in @columns")
    spread = estimate(single["value"], single["algorithm"] + " " + single["column"])
    if not spread.df:
        return ""
    lead, all_of_them = (text.number(least_lead(spread.sd, spread.df, len(columns), n)) for n in (1, at_once))
    together = f", or by {all_of_them} for all {at_once} comparisons together" if at_once > 1 else ""
    return (
        f" Seeds of one method differ by {text.number(spread.sd)} points (standard deviation within a domain). If the "
        "others spread alike, which is a rough guide, averages of one seed can be told apart only where they differ by "
        f"{lead} points or more{together}."
    )


def batches(benchmark: str) -> str:
    """Which methods draw batches from the pooled domains, and how large the largest domain is in these."""
    pooled = [paper.method_name(name) for name in ALGORITHMS if method(name).sampling == "pooled"]
    counts = REGISTRY[benchmark].counts
    largest = max(counts, key=counts.__getitem__)
    rest = [sum(counts.values()) - counts[held_out] for held_out in counts if held_out != largest]
    shares = [text.number(100 * counts[largest] / images, 0) for images in (max(rest), min(rest))]
    where = f"{shares[0]} to {shares[1]}% of the pooled images are of the domain {text.words(largest)}"
    return (
        f"{text.listed(pooled)} take batches from the pooled training domains. The other "
        f"{len(ALGORITHMS) - len(pooled)} methods take as many images of each. On {text.data(benchmark)}, {where}, "
        "unless it is held out."
    )


def before_the_jump(benchmark: str, frame: pd.DataFrame | None = None) -> str:
    """Of each method whose loss jumps, such as IRM's, how many runs were selected before it did: one line per scale.

    Such a run is one of the weaker loss, cut short while the rate was still high.
    """
    frame = runs.load(at_defaults=True) if frame is None else frame
    said = []
    for scale, own in frame[frame["benchmark"] == benchmark].groupby("scale", sort=False):
        counts = []
        for name in ALGORITHMS:
            jump, made = method(name).jump, own[own["algorithm"] == name]
            if jump and len(made):
                early = (made["validation.epoch"] <= made[jump] * made["epochs"]).sum()
                counts.append(
                    f"{early} of {len(made)} {'run' if len(made) == 1 else 'runs'} of {paper.method_name(name)}"
                )
        if counts:
            said.append(
                f"{_at(benchmark, scale)}: some losses get their full penalty only after a part of "
                f"the training. Weights from before that were selected in {text.listed(counts)}."
            )
    return "\n".join(said)


def correlation(found: Correlation) -> str:
    """+0.46 [−0.01, +0.76]; or what keeps it from having an interval."""
    if pd.isna(found.value):
        return "not defined, since all averages on one side are equal"
    value = text.number(found.value, 2, sign=True)
    if pd.isna(found.low):
        why = "fewer than four methods" if found.n < 4 else "the two orders are the same or reversed"
        return f"{value}, without an interval: {why}"
    return value + text.interval(found, 2, sign=True)


def _spread(both: pd.DataFrame) -> str:
    """How far the methods lie apart, and seeds of one method."""
    spans = [text.number(both[name].max() - both[name].min()) for name in ("paper", "value")]
    seeds = both["sd"].dropna()
    whose = f"the median over the {len(seeds)} methods" if len(seeds) > 1 else "that of the one method"
    of_seeds = (
        f"the standard deviation over seeds is {text.number(seeds.median())} points, {whose} with several seeds"
        if len(seeds)
        else "with one seed each, nothing is known of the spread over seeds"
    )
    return f"The best and the worst of these are {spans[0]} points apart in the paper and {spans[1]} here; {of_seeds}."


def _missing(line: Any, total: int) -> str:
    if line.algorithm not in ALGORITHMS:
        return f"{text.NOT_RUN}: {NOT_TRAINABLE[line.algorithm]}"
    return f"{line.columns} of {total} domains" if line.columns else text.NOT_RUN
