"""The paper's printed numbers agree with each other, but for the rows listed here and in data/paper/README.md."""

import re
from pathlib import Path

import pandas as pd
import pytest

from hypo.data.benchmarks import REGISTRY
from hypo.data.corruptions import CORRUPTIONS
from hypo.paper import NUMBERS as IN_THE_PDF
from hypo.paper import disagreements, method_name, of_benchmark, ranks, registry_name, short_name, table

FOLDER = Path(__file__).resolve().parents[1] / "data" / "paper"
NUMBERS = {  # as counted in the paper: rows x columns
    "all": 19 * 4,
    "pacs": 19 * 5,
    "officehome": 19 * 5,
    "vlcs": 19 * 5,
    "terra": 19 * 5,
    "pcl-swad": 4 * 5,
    "officehome-swad": 4 * 5,
    "vlcs-swad": 4 * 5,
    "terra-swad": 4 * 5,
    "fullcorruption": 2 * 20,
    "cifar10c": 3,
    "ablation-sep": 2 * 5,
    "hard-negative": 2 * 5,
    "ema-lp": 2 * 5,
    "quan": 3,
    "c10_corr": 3,
    "alpha": 1,
    "text": 11,
}
DOMAINS = {
    "pacs": ["pacs", "pcl-swad", "ablation-sep", "hard-negative", "ema-lp"],
    "office_home": ["officehome", "officehome-swad"],
    "vlcs": ["vlcs", "vlcs-swad"],
    "terra_incognita": ["terra", "terra-swad"],
}

NOT_THE_MEAN = {("all", "ERM"): (76.7, 76.87), ("officehome", "GVRT"): (70.1, 70.175)}
"""Averages off by more than half of the last digit: (printed, mean of the printed row)."""
NO_ROUNDING_EXPLAINS = {("all", "ERM")}
"""Those off by more than the last digit, which rounding of the row and of its average cannot reach."""
NOT_THE_TABLES = {("text", 7): (1.6, 3.0)}
"""Numbers of the text that the tables give otherwise: (printed, from the tables)."""


def number(label: str, algorithm: str, column: str = "average") -> float:
    found = table(label)
    (value,) = found.loc[(found["method"] == algorithm) & (found["column"] == column), "value"]
    return float(value)


def row(label: str, by: str, name: str, index: str) -> dict[str, float]:
    """The numbers of a table whose `by` is `name`, keyed by `index`."""
    found = table(label)
    return found[found[by] == name].set_index(index)["value"].to_dict()


def averages() -> dict[tuple[str, str], tuple[float, float, float]]:
    """(table, algorithm) -> the printed average, the mean of the printed row, and the last digit's worth."""
    found = {}
    for label in NUMBERS:
        for algorithm, row in table(label).groupby("method"):
            average = row.loc[row["column"] == "average", "value"]
            if len(average) and len(row) > 1:
                mean = row.loc[row["column"] != "average", "value"].mean()
                found[label, algorithm] = float(average.iloc[0]), mean, 0.01 if label == "fullcorruption" else 0.1
    return found


def test_every_table_is_there_in_full_and_tidy():
    assert {path.stem for path in FOLDER.glob("*.csv")} == set(NUMBERS)
    for label, count in NUMBERS.items():
        found = table(label)
        assert list(found) == ["table", "row", "method", "column", "value", "spread", "bold", "algorithm"]
        assert len(found) == count, label
        assert set(found["table"]) == {label}
        assert found["bold"].dtype == bool
        assert found["value"].between(0, 100).all()
        assert found["row"].is_monotonic_increasing
        assert set(found["row"]) == set(range(1, found["row"].max() + 1))
        assert not found.duplicated(["row" if label == "text" else "method", "column"]).any()


def test_columns_bear_the_names_of_the_registry():
    for benchmark, labels in DOMAINS.items():
        for label in labels:
            assert set(table(label)["column"]) == {*REGISTRY[benchmark].domains, "average"}
    assert set(table("fullcorruption")["column"]) == {*CORRUPTIONS, "average"}
    assert {*table("all")["column"], *table("quan")["column"]} <= {*REGISTRY, "average"}


def test_averages_are_the_means_of_their_rows_but_for_the_listed_ones():
    found = averages()
    assert len(found) == 19 * 5 + 4 * 4 + 2 * 3 + 2
    off = {key: (printed, mean) for key, (printed, mean, unit) in found.items() if abs(printed - mean) > 0.501 * unit}
    assert off.keys() == NOT_THE_MEAN.keys()
    for key, expected in NOT_THE_MEAN.items():
        assert off[key] == pytest.approx(expected, abs=0.005)
    beyond = {key for key, (printed, mean, unit) in found.items() if abs(printed - mean) > 1.001 * unit}
    assert beyond == NO_ROUNDING_EXPLAINS


def test_numbers_printed_in_two_tables_are_the_same():
    for benchmark, label in (("pacs", "pacs"), ("office_home", "officehome"), ("vlcs", "vlcs")):
        summary, detailed = row("all", "column", benchmark, "method"), row(label, "column", "average", "method")
        assert summary == detailed
        assert len(summary) == 19
    hypo = row("pacs", "method", "HYPO (Ours)", "column")
    for label, name in (
        ("pcl-swad", "HYPO w/ SGD (Ours)"),
        ("ablation-sep", "Ours (w separation loss)"),
        ("hard-negative", "Ours (w hard negative pairs)"),
        ("ema-lp", "Ours (EMA)"),
    ):
        assert row(label, "method", name, "column") == hypo
    noise = number("fullcorruption", "HYPO (Ours)", "gaussian_noise")
    assert number("cifar10c", "HYPO (ours)", "gaussian_noise") == noise


def test_numbers_of_the_text_are_those_of_the_tables_but_for_the_listed_ones():
    hypo = number("pacs", "HYPO (Ours)")
    ce, ours = (number("fullcorruption", name, "gaussian_noise") for name in ("CE", "HYPO (Ours)"))
    others = table("pacs").query("column == 'average' and method != 'HYPO (Ours)'")["value"]
    tables = {
        ("c10_corr", 1): ce,
        ("c10_corr", 2): ours,
        ("c10_corr", 3): ours - ce,
        ("alpha", 1): hypo,
        ("text", 1): ce,
        ("text", 2): ours,
        ("text", 3): hypo,
        ("text", 4): hypo - others.max(),
        ("text", 5): number("pcl-swad", "HYPO w/ SWAD (Ours)"),
        ("text", 6): number("pcl-swad", "PCL w/ SGD"),
        ("text", 7): number("officehome", "HYPO (Ours)") - number("officehome", "CORAL"),
        ("text", 8): number("ablation-sep", "Ours (w/o separation loss)"),
        ("text", 9): hypo - number("hard-negative", "Ours (w/o hard negative pairs)"),
        ("text", 10): number("ema-lp", "Ours (LP)"),
        ("text", 11): number("ema-lp", "Ours (EMA)"),
    }
    texts = pd.concat(map(table, ("c10_corr", "alpha", "text")))
    printed = {(line.table, line.row): line.value for line in texts.itertuples()}
    assert printed.keys() == tables.keys()
    off = {key: (printed[key], tables[key]) for key in printed if abs(printed[key] - tables[key]) > 1e-6}
    assert off.keys() == NOT_THE_TABLES.keys()
    for key, expected in NOT_THE_TABLES.items():
        assert off[key] == pytest.approx(expected)


def test_the_readme_lists_the_same_disagreements():
    section = (FOLDER / "README.md").read_text().split("## Where the paper disagrees with itself")[1].split("\n## ")[0]
    listed = {line.split(":")[0].removeprefix("- ") for line in section.splitlines() if line.startswith("- ")}
    assert listed == {f"`{table}`, {name}" for table, name in NOT_THE_MEAN} | {
        f"`{table}` row {row}" for table, row in NOT_THE_TABLES
    }


def test_a_misspelt_table_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean officehome-swad"):
        table("office-swad")


def test_tables_and_figures_are_numbered_once_each_as_in_the_pdf():
    assert sorted(IN_THE_PDF.values(), key=lambda name: (name[0], int(re.search(r"\d+", name)[0]), name)) == [
        *(f"Figure {n}" for n in range(1, 7)),
        "Figure 7a",
        "Figure 7b",
        *(f"Table {n}" for n in range(1, 16)),
    ]
    assert set(NUMBERS) - {"text"} <= set(IN_THE_PDF)


def test_names_of_methods():
    printed = {"HYPO (Ours)": "hypo", "HYPO (ours)": "hypo", "CE": "erm", "ERM": "erm", "PCL w/ SGD": "pcl"}
    printed |= {"I-Mixup": "i_mixup", "GroupDRO": "groupdro", "VREx": "vrex"}
    assert {name: registry_name(name) for name in printed} == printed
    assert short_name("HYPO (Ours)") == method_name("hypo") == "HYPO" and method_name("own_idea") == "own_idea"


def test_ranks_are_one_more_than_the_number_of_better_methods():
    placed = ranks("all")
    for column in ("pacs", "office_home", "vlcs", "average"):
        values = placed[column]["value"]
        assert placed[column]["rank"].tolist() == [1 + int((values > value).sum()) for value in values]
    assert placed["average"]["value"].is_monotonic_decreasing


def test_disagreements_are_computed():
    found = disagreements().set_index(["label", "method"])
    assert set(found.index) == set(NOT_THE_MEAN)
    assert set(found.index[~found["rounding"]]) == NO_ROUNDING_EXPLAINS


def test_a_benchmark_has_the_rows_of_its_table_and_pcl_joins_those_of_pacs():
    assert of_benchmark("digits").empty
    assert len(of_benchmark("vlcs")) == NUMBERS["vlcs"]
    assert len(of_benchmark("pacs")) == NUMBERS["pacs"] + 5
    assert set(of_benchmark("pacs").query("algorithm == 'pcl'")["value"]) == set(
        row("pcl-swad", "method", "PCL w/ SGD", "column").values()
    )
