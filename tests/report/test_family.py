"""The page of the methods: made from the registry and the files, with a formula and a reference for each."""

import json
import re
from pathlib import Path

import pytest

from hypo.algorithms import ALGORITHMS, method
from hypo.algorithms.base import Algorithm
from hypo.data.benchmarks import REGISTRY
from hypo.report import family

BOOK = Path(__file__).resolve().parents[2] / "book"
SOURCES = {path: path.read_text() for path in [*BOOK.glob("*.ipynb"), *BOOK.glob("*.md")]}
KEYS = re.findall(r"^@\w+\{(\S+),$", (BOOK / "references.bib").read_text(), re.MULTILINE)


def test_the_page_has_every_method_of_the_registry_once():
    cells = [cell for cell in json.loads(SOURCES[BOOK / "methods.ipynb"])["cells"] if cell["cell_type"] == "code"]
    shown = re.findall(r'cards\("(\w+)"\)', "\n".join("".join(cell["source"]) for cell in cells))
    assert sorted(name for each in shown for name in family.families()[each]) == sorted(ALGORITHMS)
    links = [re.search(r"#(\w+)", text).group(1) for text in family.overview().frame["method"]]
    assert sorted(links) == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_card_has_sentence_formula_reference_hyperparameters_and_code(name):
    card = family.card(name)
    assert f'id="{name}"' in card and f"{{cite:p}}`{name}`" in card and "$$" in card and family.idea(name) in card
    assert all(f"- `{field}` (" in card for field in method(name).Hyperparameters.__dataclass_fields__)
    assert f"class {method(name).__name__}(" in card and "<details>" in card and "</details>" in card


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("cdann", {"mlp", "losses_of_both_sides", "optimisers_of_both_sides", "ramp", "reverse_gradient"}),
        ("vrex", {"risk_and_penalty", "domain_risks", "annealed", "shortened"}),
        ("groupdro", {"domain_risks", "equal_weights", "exponentiated_gradient"}),
        ("sagnet", {"style", "restyled", "stages"}),
        ("mmd", {"over_pairs"}),
        ("erm", set()),
    ],
)
def test_a_card_has_the_code_that_a_method_shares_with_others_and_no_more(name, functions):
    code, card = family.shared(method(name)), family.card(name)
    assert {*re.findall(r"^def (\w+)", "\n".join(code.values()), re.MULTILINE)} == functions
    assert all(f"From `{file}`:" in card and text.strip() in card for file, text in code.items())


def test_the_interface_names_every_member_that_a_method_overrides():
    cells = json.loads(SOURCES[BOOK / "your_method.ipynb"])["cells"]
    rows = re.findall(r"^\| (`.*?) \|", "\n".join("".join(cell["source"]) for cell in cells), re.MULTILINE)
    shown = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert all(hasattr(Algorithm, name) for name in shown)
    overridden = {each for name in ALGORITHMS for each in vars(method(name)) if hasattr(Algorithm, each)}
    assert {each for each in overridden if not each.startswith("_")} | {"predict", "rates"} <= shown


def test_a_new_method_appears_by_itself(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "newcomer", method("coral"))
    assert family.families()["others"] == ["newcomer"]
    assert 'id="newcomer"' in family.cards("others") and "L = cross-entropy" in family.cards("others")
    assert "[newcomer](#newcomer)" in [*family.overview().frame["method"]]


def test_methods_and_data_sets_are_in_the_bibliography_and_what_is_cited_too():
    assert len(KEYS) == len(set(KEYS))
    assert {*ALGORITHMS, "gvrt", "swad"} <= {*KEYS}
    assert {name.removesuffix("c") for name in REGISTRY} <= {*KEYS}  # CIFAR-10-C and ImageNet-100-C are of one paper
    cited = {
        key
        for text in SOURCES.values()
        for keys in re.findall(r"\{cite:[pt]\}`([^`]+)`", text)
        for key in keys.split(",")
    }
    assert cited <= {*KEYS}
    unused = {*KEYS} - cited - {*ALGORITHMS}
    assert not unused, "nobody cites them"
