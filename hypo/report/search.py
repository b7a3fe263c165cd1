"""The trials of a search at cpu scale, the choice between them, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hypo.algorithms import ALGORITHMS
from hypo.report import text
from hypo.report.start import RATES, planned
from hypo.report.table import Table
from hypo.training.verify import kept

SEARCH = ("search", "search, other methods")
"""Headings of the trials on PACS."""
CROPS = {"crops": "crops", "light": "light crops"}
"""Augmentations of CIFAR-10 in words."""


def trials(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> pd.DataFrame:
    """The runs of a search, without any number of held-out images: those of `planned`, and

    trial, words  what tells the trials of a method apart, as text: in short, and as part of a sentence
    chosen        of each method, the trial with the highest validation accuracy, of equal ones that with the smaller
                  lr, then the smaller head_lr; none while a trial of the method is missing
    """
    found = planned(frame, *headings).drop(columns=["start", "setting", "chance", "cosine"])
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    found = found.sort_values(
        ["algorithm", *RATES], key=lambda c: c.map(order) if c.name == "algorithm" else c, kind="stable"
    ).reset_index(drop=True)
    for _, own in found.groupby("algorithm"):
        fields = pd.DataFrame([*own["fields"]], own.index)
        varied = fields.loc[:, fields.nunique(dropna=False) > 1]
        for name, spelt in (("trial", _short), ("words", _long)):
            found.loc[own.index, name] = [", ".join(spelt(dict(row))) for _, row in varied.iterrows()]
    best = found.sort_values(["validation", *RATES], ascending=[False, True, True]).drop_duplicates("algorithm")
    complete = found.groupby("algorithm")["validation"].transform(lambda values: values.notna().all())
    return found.assign(chosen=found.index.isin(best.index) & complete).drop(columns="fields")


def _short(varied: dict[str, Any]) -> list[str]:
    """A trial as a column: 0.003 (× 3), 30 epochs, light crops, τ falls over 80%, weight=2.0."""
    lr, head_lr = (varied.pop(name, None) for name in RATES)
    rates = ([] if lr is None else [f"{lr:g}"]) + ([] if head_lr is None else [f"(× {head_lr:g})"])
    said = {
        "epochs": "{} epochs".format,
        "augmentation": lambda name: CROPS.get(name, f"augmentation {name}"),
        "start_share": "τ falls over {:.0%}".format,
    }
    rest = [said[name](value) if name in said else text.settings({name: value}) for name, value in varied.items()]
    return [" ".join(rates), *rest] if rates else rest


def _long(varied: dict[str, Any]) -> list[str]:
    """The same in a sentence: a rate of 0.003, 3 times that for new layers, ..."""
    lr, head_lr = (varied.pop(name, None) for name in RATES)
    rates = [] if lr is None else [f"a rate of {lr:g}"]
    rates += [] if head_lr is None else [f"{head_lr:g} times {'that' if rates else 'the rate'} for new layers"]
    return [*rates, *_short(varied)]


def search_table(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> Table:
    """Validation accuracy of every trial of a search: one row per method, one column per trial, named by what tells a
    method's trials apart, and which was chosen."""
    found = trials(frame, headings)
    cells = found.assign(cell=[text.number(value) or text.NOT_RUN for value in found["validation"]])
    shown = cells.pivot(index="algorithm", columns="trial", values="cell").fillna("")
    columns = [*dict.fromkeys(found.sort_values(RATES, kind="stable")["trial"])]
    shown = shown.loc[[*dict.fromkeys(found["algorithm"])], columns]
    shown["chosen"] = found[found["chosen"]].set_index("algorithm")["trial"].reindex(shown.index).fillna("")
    shown.index = pd.Index([text.method_name(name) for name in shown.index], name="method")
    (place,) = {*zip(found["benchmark"], found["scale"], found["held_out"], found["seed"], strict=True)}
    benchmark, scale, held_out, seed = place
    apart = f"{text.words(held_out)} held out and not looked at" if held_out else "corruptions not looked at"
    rates = found["lr"].nunique() > 1
    by = "learning rate (times how much for new layers)" if rates else "what tells the trials of a method apart"
    caption = (
        f"{text.data(benchmark)}, {scale} scale, {apart}, seed {seed}: accuracy in percent on validation images of "
        f"what was trained on, by {by}. One whole run each."
    )
    return Table(shown.rename_axis(columns=None), f"search-{benchmark}", caption, found["origins"], found)


def search_in_words(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> str:
    """How many trials each method had, which was chosen for how many of them, and how far ahead of the next it was."""
    found = trials(frame, headings)
    counts = found.groupby("algorithm", sort=False).size()
    numbers = [f"{text.method_name(name)} {count}" for name, count in counts.items()]
    said = [f"Numbers of trials: {text.listed(numbers)}."]
    if counts.nunique() == 1:
        said = [f"{counts.iloc[0]} trials are planned for each of {len(counts)} methods."]
    chosen = found[found["chosen"]]
    for words, own in chosen.groupby("words", sort=False):
        names = [text.method_name(name) for name in own["algorithm"]]
        whose = f"all {len(names)}" if len(names) == len(counts) else text.listed(names)
        said.append(f"Chosen for {whose}: {words}.")
    missing = [text.method_name(name) for name in counts.index if name not in set(chosen["algorithm"])]
    if missing:
        said.append(f"Trials of {text.listed(missing)} are missing, so nothing is chosen for them yet.")
    other = [text.method_name(name) for name in chosen.loc[~chosen["usual"], "algorithm"]]
    if other:
        said.append(f"The defaults of the scale differ from that for {text.listed(other)}.")
    elif len(chosen):
        said.append("What was chosen is the default of each of these methods at the scale.")
    next_best = found[~found["chosen"]].groupby("algorithm")["validation"].max()
    ahead = (chosen.set_index("algorithm")["validation"] - next_best).dropna().sort_values(kind="stable")
    if len(ahead):
        each = [f"{text.number(gap)} for {text.method_name(name)}" for name, gap in ahead.items()]
        said.append(f"The chosen trial is ahead of the next by, in points: {text.listed(each)}.")
    return " ".join(said)


def made_again(frame: pd.DataFrame, headings: Sequence[str] = SEARCH) -> str:
    """Chosen trials whose run was made again by `hypo verify --keep`, next to the second best of the same method."""
    found, said = trials(frame, headings), []
    for best in found[found["chosen"]].itertuples():
        if (again := kept().get(Path(best.origins[0].file).stem)) is None:
            continue
        before, now = (100 * value for value in again["measures"]["validation_accuracy"])
        own = found[(found["algorithm"] == best.algorithm) & ~found["chosen"]]
        second = own.loc[own["validation"].idxmax()]
        gap, moved = before - second["validation"], abs(now - before)
        side = "below" if now < second["validation"] else "not below"
        within = "so the choice between the two is within noise" if moved >= gap else "so the choice stands"
        said.append(
            f"{text.method_name(best.algorithm)}'s chosen trial ({best.trial}) has a validation accuracy of "
            f"{text.number(before)}%; made again, it came to {text.number(now)}%, which is {side} the "
            f"{text.number(second['validation'])}% of the second best ({second['trial']}). The same run moved by "
            f"{text.number(moved)} points and the two trials are {text.number(gap)} apart, {within}."
        )
    return " ".join(said) or "No chosen trial was made again."
