"""data/claims.yml: what the paper claims, where, and the rule that decides it; read and checked."""

from __future__ import annotations

import copy
import functools
import itertools
import os
from pathlib import Path
from typing import Any

import yaml

from hypo import config, paper, records
from hypo.algorithms import ALGORITHMS
from hypo.claims.checks import CHECKS
from hypo.data.benchmarks import REGISTRY
from hypo.runs import MEASURES
from hypo.suggest import one_of

KEYS = {"id", "claim", "where", "page", "rule"}
OPTIONAL = {"headline", "short", "benchmark", "paper", "note"}
KINDS = {
    "compare": {"measure", "of", "above", "below"},
    "limit": {"measure", "of", "above", "below"},
    "near": {"measure", "of", "within"},
    "check": {"name"},
    "all": {"claims"},
    "open": {"reason"},
}
"""Kind of rule -> its keys, all needed but for one of above and below."""


def load(path: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """The claims of data/claims.yml, as laid out there; a mistake in the file is a ValueError of one sentence."""
    path = records.home() / "claims.yml" if path is None else Path(path)
    return copy.deepcopy(_checked(path.read_text(encoding="utf-8"), path.name))


@functools.lru_cache(4)
def _checked(text: str, name: str) -> list[dict[str, Any]]:
    """The claims in the text of a file; a page asks for them again and again."""
    try:
        claims = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(claims, list):
        raise ValueError(f"{name} must be a list of claims, each beginning with - id")
    for claim in claims:
        _check_claim(claim)
    names = [claim["id"] for claim in claims]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the id {min(twice)} is given to two claims: rename one")
    for claim in claims:
        parts = claim["rule"].get("claims", [])
        if not isinstance(parts, list):
            raise ValueError(f"claims in the rule of claim {claim['id']} must be a list of ids, not {parts!r}")
        for part in parts:
            one_of(f"claim in {claim['id']}", part, names)
    return claims


def printed(claim: dict[str, Any]) -> float | None:
    """The number of the paper that the claim is about, None where it names none."""
    if "paper" not in claim:
        return None
    given = claim["paper"]
    _check_keys(f"paper of claim {claim['id']}", given, {"table", "column", "algorithm"}, {"less"})
    if not isinstance(given["table"], str):
        raise ValueError(f"table in paper of claim {claim['id']} must be the name of a table, not {given['table']!r}")
    table = paper.table(given["table"])
    values = table[table["column"] == one_of("column", given["column"], table["column"].unique())]
    values = values.set_index("method")["value"]
    value, *less = (values[one_of("method", given[key], values.index)] for key in ("algorithm", "less") if key in given)
    return round(value - sum(less), 6)


def settings(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """One setting for each combination of the values that are lists."""
    return [dict(zip(setting, values, strict=True)) for values in itertools.product(*map(many, setting.values()))]


def many(value: Any) -> list[Any]:
    """A list as it is, anything else as a list of one."""
    return value if isinstance(value, list) else [value]


def _check_claim(claim: dict[str, Any]) -> None:
    name = claim.get("id", "without-an-id") if isinstance(claim, dict) else None
    if not isinstance(name, str) or name.split() != [name]:
        raise ValueError(f"a claim must be a mapping with an id of one word, not {(claim if name is None else name)!r}")
    _check_keys(f"claim {name}", claim, KEYS, OPTIONAL)
    where = claim["where"]
    if not isinstance(where, list) or not where or not all(isinstance(place, str) for place in where):
        raise ValueError(f"where of claim {name} must be a list of places in the paper, a section first, not {where!r}")
    rule = claim["rule"]
    if not isinstance(rule, dict):
        raise ValueError(f"the rule of claim {name} must be a mapping with a kind, not {rule!r}")
    kind = one_of(f"kind of rule in claim {name}", rule.get("kind", ""), KINDS)
    sides = KINDS[kind] & {"above", "below"}
    _check_keys(f"the rule of claim {name}", rule, (KINDS[kind] | {"kind"}) - sides, sides)
    if sides and len(sides & set(rule)) != 1:
        raise ValueError(f"the rule of claim {name} needs either above or below")
    for measure in many(rule.get("measure", [])):
        one_of(f"measure in claim {name}", measure, MEASURES)
    for side in ("of", *(sides if kind == "compare" else ())):
        given = rule.get(side, {})
        if not isinstance(given, dict):
            raise ValueError(f"{side} in the rule of claim {name} must be a mapping of settings, not {given!r}")
        for setting in settings(given):
            _check_setting(name, setting)
    if kind == "check":
        one_of(f"check in claim {name}", rule["name"], CHECKS)
    if "benchmark" in claim:
        one_of(f"benchmark in claim {name}", claim["benchmark"], REGISTRY)
    elif "measure" in rule:
        raise ValueError(f"claim {name} is decided by runs and needs a benchmark")
    printed(claim)


def _check_setting(name: str, setting: dict[str, Any]) -> None:
    algorithm = one_of(f"algorithm in claim {name}", setting.get("algorithm", "hypo"), _methods())
    one_of(f"rule of selection in claim {name}", setting.get("rule", "validation"), records.RULES)
    known = config.settings(algorithm if algorithm in ALGORITHMS else "erm")
    for field, value in setting.items():
        if field not in ("algorithm", "rule"):
            one_of(f"field in claim {name}", field, [*known, "rule"])
            config.typed(known[field], value)


@functools.cache
def _methods() -> list[str]:
    """Every algorithm that is implemented here or stands in the paper's tables."""
    return sorted({*ALGORITHMS, *paper.names("all"), *paper.names("cifar10c")})


def _check_keys(what: str, given: dict[str, Any], needed: set[str], optional: set[str]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{what} must be a mapping with {', '.join(sorted(needed))}")
    for key in given:
        one_of(f"key in {what}", key, sorted(needed | optional))
    if missing := sorted(needed - set(given)):
        raise ValueError(f"{what} lacks {', '.join(missing)}")
