"""What the paper prints: the numbers of its tables and figures, the ranks they give, and where they disagree.

A table or figure has two names: the number that it has in the PDF ("Table 4"), which is what readers see, and the label
of its LaTeX source ("pacs"), which names its file in data/paper/ and stays inside.
"""

from __future__ import annotations

import functools
import io
import math
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import pandas as pd

from hypo import records
from hypo.suggest import one_of

PRINTED = {"table": str, "row": int, "algorithm": str, "column": str, "value": float, "spread": float, "bold": bool}
"""The columns of the files in data/paper/, which its README explains; spread may be empty."""
LISTED = {"label": str, "number": str, "shows": str, "page": str}
"""The columns of paper.csv; page may be empty."""


def read(path: Traversable, columns: dict[str, type], optional: str) -> pd.DataFrame:
    """A CSV file with these columns, of which one may have empty cells; any other file is a ValueError."""
    try:
        found = pd.read_csv(io.BytesIO(path.read_bytes()), dtype=columns)
    except (ValueError, OverflowError):
        found = pd.DataFrame()
    shaped = [*found] == [*columns] and isinstance(found.index, pd.RangeIndex) and len(found) > 0
    full = found.drop(columns=optional, errors="ignore").notna().all(axis=None)
    if not shaped or not full or found.isin([math.inf, -math.inf]).any(axis=None):
        expected = f"a CSV file with {', '.join(columns)}, full but for {optional}"
        raise ValueError(f"{path.name} is damaged, it must be {expected}: restore it from the repository")
    return found


CONTENTS = read(files("hypo") / "paper.csv", LISTED, "page").set_index("label")
ARTEFACTS = CONTENTS[CONTENTS["page"].notna()]
"""The paper's figures and tables by label: number (in the PDF), shows, page (of the counterpart here)."""
SECTIONS: dict[str, str] = CONTENTS.loc[CONTENTS["page"].isna(), "shows"].to_dict()
"""Number -> title of the sections that make claims."""
NUMBERS: dict[str, str] = ARTEFACTS["number"].to_dict()
"""Label -> the number in the PDF."""

TABLES = {
    "pacs": "pacs",
    "office_home": "officehome",
    "vlcs": "vlcs",
    "terra_incognita": "terra",
    "cifar10": "fullcorruption",
}
"""Benchmark -> label of the paper's table of it."""

NAMES = {
    "pacs": "PACS",
    "office_home": "Office-Home",
    "vlcs": "VLCS",
    "terra_incognita": "Terra Incognita",
    "cifar10": "CIFAR-10",
    "imagenet100": "ImageNet-100",
    "digits": "the digits",
}
"""Benchmark -> its name in prose."""


@functools.cache
def _read(label: str) -> pd.DataFrame:
    folder = records.home() / "paper"
    found = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    if not found:
        raise FileNotFoundError(f"the paper's numbers are not at {folder}: work in a clone of the repository")
    return read(found[one_of("table", label, found)], PRINTED, "spread")


def table(label: str) -> pd.DataFrame:
    """The numbers that the paper prints under a label, one per row.

    table, row         the label, and the row of the printed table
    method             the name as printed; algorithm: the registry's name of it
    column             held-out domain, corruption or benchmark, by its name here, or "average"
    value, spread      as printed, accuracies in percent; the printed ±, a standard error, NaN where there is none
    bold               whether it is printed in bold
    """
    printed = _read(label).rename(columns={"algorithm": "method"})
    return printed.assign(algorithm=printed["method"].map(registry_name))


def of_benchmark(benchmark: str) -> pd.DataFrame:
    """`table` of a benchmark, empty where the paper has none. PCL's row on PACS is the one of Table 2, without SWAD."""
    if benchmark not in TABLES:
        return table("all")[:0]
    printed = table(TABLES[benchmark])
    if benchmark == "pacs":
        printed = pd.concat([printed, table("pcl-swad").query("method == 'PCL w/ SGD'")], ignore_index=True)
    return printed


def columns(printed: pd.DataFrame) -> list[str]:
    """The columns of a printed table but for the average, in their order."""
    return [column for column in dict.fromkeys(printed["column"]) if column != "average"]


def short_name(method: str) -> str:
    """A method as printed, without what the table adds to it: HYPO (Ours) -> HYPO, PCL w/ SGD -> PCL; CE is ERM,
    and Mixstyle is spelt as its authors do."""
    name = re.sub(r" \(ours\)| w/ SGD", "", method, flags=re.IGNORECASE)
    return {"CE": "ERM", "Mixstyle": "MixStyle"}.get(name, name)


def registry_name(method: str) -> str:
    """The registry's name of a method from the printed one: HYPO (Ours) -> hypo, CE -> erm, I-Mixup -> i_mixup."""
    return re.sub(r"\W+", "_", short_name(method).lower())


@functools.cache
def _methods() -> dict[str, str]:
    return {algorithm: name for label in ("all", "cifar10c", "pcl-swad") for algorithm, name in names(label).items()}


def method_name(algorithm: str) -> str:
    """An algorithm of the registry by its name in the paper; as it is where the paper has none."""
    return _methods().get(algorithm, algorithm)


def names(label: str) -> dict[str, str]:
    """The registry's name of each method of a table -> its name as printed."""
    return {registry_name(name): short_name(name) for name in table(label)["method"]}


def ranks(label: str, by: str = "average") -> pd.DataFrame:
    """A table with ranks: one row per algorithm; for each column its `value` and `rank`, 1 the best.

    Methods with the same number share the better rank. Sorted by column `by`.
    """
    printed = table(label)
    values = printed.pivot(index="algorithm", columns="column", values="value")[[*dict.fromkeys(printed["column"])]]
    values = values.loc[[*dict.fromkeys(printed["algorithm"])]].sort_values(by, ascending=False, kind="stable")
    placed = values.rank(ascending=False, method="min").astype(int)
    return pd.concat({"value": values, "rank": placed}, axis=1).swaplevel(axis=1)


def disagreements() -> pd.DataFrame:
    """Printed averages that are not the mean of their printed row: label, method, printed, mean, rounding.

    rounding  whether rounding the row and its average can explain it
    """
    rows = []
    for label in ("all", *TABLES.values()):
        unit = 0.01 if label == "fullcorruption" else 0.1
        for method, row in table(label).groupby("method", sort=False):
            average = row["column"] == "average"
            printed, mean = row.loc[average, "value"].item(), row.loc[~average, "value"].mean()
            if abs(printed - mean) > 0.501 * unit:
                rows.append((label, method, printed, mean, abs(printed - mean) <= unit))
    return pd.DataFrame(rows, columns=["label", "method", "printed", "mean", "rounding"])


def lead_on_office_home() -> tuple[float, str, float, list[str]]:
    """HYPO's lead as the text prints it, the method it cites, the lead over that by Table 5, and whom the text fits."""
    claim = table("text").query("column == 'office_home'").iloc[0]
    averages = ranks("officehome")["average"]["value"]
    lead, printed = (averages["hypo"] - averages).round(1), names("officehome")
    cited = registry_name(claim["method"].removeprefix("HYPO - "))
    return claim["value"], printed[cited], lead[cited], [printed[name] for name in lead.index[lead == claim["value"]]]
