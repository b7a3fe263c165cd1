"""The methods as text: all of them, one line each, or one explained."""

from __future__ import annotations

import dataclasses
import inspect
import re

from hypo.algorithms import ALGORITHMS, method
from hypo.config import method_defaults
from hypo.training.cost import step_costs

EXAMPLES = (("demo", "digits"), ("cpu", "pacs"), ("paper", "pacs"))
"""Scales with a benchmark each, for the settings that a method has there."""
KINDS = {
    "loss": "a loss of its own",
    "state": "a loss of its own with state or a schedule",
    "modules": "modules of its own that are trained too",
    "inputs": "inputs of its own",
    "network": "a network of its own",
    "step": "a step of its own",
}


def relative_costs() -> dict[str, float]:
    """Time of a step on the digits over that of ERM, by method, as `make bench` last measured it; nothing where it did
    not."""
    found = step_costs()
    return {"erm": 1.0} | found if found else {}


def summary(name: str) -> tuple[str, str]:
    """What a method does, in a sentence, and its reference, which ends the first line of its file in brackets."""
    text = (inspect.getmodule(method(name)).__doc__ or "").partition("\n")[0]
    sentence, reference = re.fullmatch(r"(?:[^:(]*: )?(.*?)(?: \((.*)\))?\.?", text).groups()
    return sentence, reference or "no reference"


def cost(name: str) -> str:
    """Of a step on the digits, in words."""
    return f"{found:.2f} x ERM" if (found := relative_costs().get(name)) else "not measured"


def listing() -> str:
    """One line per method: name, kind, cost of a step on the digits, reference, hyperparameters with their defaults."""
    rows = [("method", "kind", "cost on the digits", "reference", "hyperparameters")]
    for name in ALGORITHMS:
        own = dataclasses.fields(method(name).Hyperparameters)
        settings = ", ".join(f"{field.name} {plain(field.default)}" for field in own)
        rows.append((name, method(name).kind, cost(name), summary(name)[1], settings or "none"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def explanation(name: str) -> str:
    """One method: formula, symbols, reference, the mistake it avoids, its hyperparameters, how batches are drawn."""
    kind = method(name)
    lines = [f"{name}: {summary(name)[0]} ({summary(name)[1]})", "", inspect.getdoc(kind) or "", ""]
    for field in dataclasses.fields(kind.Hyperparameters):
        option = f"--{field.name.replace('_', '-')}"
        lines.append(f"{option:<22} {field.metadata['help']} (default: {plain(field.default)})")
    facts = {f"{data} at {scale} scale": _defaults(name, scale, data) for scale, data in EXAMPLES}
    batches = {"pooled": "from all domains together", "per_domain": "with as many images of each domain"}[kind.sampling]
    facts |= {"kind": f"{kind.kind}: {KINDS[kind.kind]}", "batches": batches, "a step on the digits": cost(name)}
    facts["run it"] = f"hypo train --algorithm {name}"
    return "\n".join([*lines, "", *(f"{what:<22} {value}" for what, value in facts.items() if value)])


def _defaults(name: str, scale: str, benchmark: str) -> str:
    """What a method changes of the scale's settings; where that depends on the held-out domain, of cartoon."""
    usual, cartoon = (method_defaults(name, scale, benchmark, held_out) for held_out in (None, "cartoon"))
    said = ", ".join(f"{setting} {plain(value)}" for setting, value in cartoon.items())
    return said if usual == cartoon else f"{said} (cartoon held out)"


def plain(value: object) -> str:
    """The value of a hyperparameter, in short."""
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower()
