"""The methods as a family, for their page: what each does, its formula, hyperparameters, cost and code.

All but the formulas, which are in data/methods.yml, comes from the registry and the files of the methods.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from types import ModuleType

import pandas as pd
import yaml

from hypo import records
from hypo.algorithms import ALGORITHMS, base, method
from hypo.paper import method_name
from hypo.report.methods import plain, relative_costs, summary
from hypo.report.table import TIMES, Table


def formulas() -> dict[str, dict[str, dict[str, str]]]:
    """Family -> method -> its `formula` in LaTeX, `where` it has symbols of its own, and what is `unlike` its paper."""
    return yaml.safe_load((records.home() / "methods.yml").read_text(encoding="utf-8"))


def families() -> dict[str, list[str]]:
    """Family -> its methods; "others" are the registered ones that no family has."""
    known = {family: [*own] for family, own in formulas().items()}
    listed = {name for own in known.values() for name in own}
    return known | {"others": [name for name in ALGORITHMS if name not in listed]}


def idea(name: str) -> str:
    """What the method does, as the first line of its file says it."""
    sentence, _ = summary(name)
    return f"{sentence[0].upper()}{sentence[1:].rstrip('.')}"


def overview() -> Table:
    """Every method of the registry on one line, by family."""
    measured = relative_costs()
    rows = [
        (
            f"[{method_name(name)}](#{name})",
            f"{idea(name)}.",
            method(name).sampling.replace("_", "\N{NO-BREAK SPACE}"),
            f"{measured[name]:.2f}" if name in measured else "not\N{NO-BREAK SPACE}measured",
        )
        for names in families().values()
        for name in names
    ]
    caption = (
        f"The {len(rows)} methods of the registry. A batch is pooled from all training domains, or has the same number "
        "from each domain. The cost is the time of a step on the digits as a multiple of ERM's, by `make bench`."
    )
    columns = ["method", "the idea", "batch", "cost"]
    return Table(pd.DataFrame(rows, columns=columns), "methods", caption, also=(TIMES,))


def cards(family: str) -> str:
    """The methods of a family one below the other, as Markdown."""
    return "\n\n".join(map(card, families()[family]))


def card(name: str) -> str:
    """One method as Markdown: sentence and reference, formula, hyperparameters, cost, and its code, folded."""
    kind, cost = method(name), relative_costs().get(name)
    given = {known: text for own in formulas().values() for known, text in own.items()}.get(name, {})
    opening = (inspect.getdoc(kind) or kind.__name__).split("\n\n")[0]
    parts = [
        f'<h3 id="{name}">{method_name(name)}</h3>',
        f"{idea(name)} {{cite:p}}`{name}`." if given else f"{idea(name)}.",
        rf"$$\begin{{gathered}} {given['formula']} \end{{gathered}}$$" if given else f"```\n{opening}\n```",
        f"Here {given['where']}" if "where" in given else "",
        f"Unlike its paper: {given['unlike']}" if "unlike" in given else "",
        "\n".join(_setting(kind, field) for field in dataclasses.fields(kind.Hyperparameters)),
        f"A step costs {cost:.2f} times ERM's on the digits." if cost else "The cost of a step was not measured.",
        f"<details><summary>The code, <code>{kind.__module__.replace('.', '/')}.py</code></summary>",
        f"```python\n{inspect.getsource(inspect.getmodule(kind)).strip()}\n```",
        *(f"From `{file}`:\n\n```python\n{code.strip()}\n```" for file, code in shared(kind).items()),
        "</details>",
    ]
    return "\n\n".join(filter(None, parts))


def shared(kind: type) -> dict[str, str]:
    """File of other methods, or of several -> the functions in it that a method uses, itself or through one of them."""
    own, found = inspect.getmodule(kind), {}

    def follow(code: str, module: ModuleType) -> None:
        for name in re.findall(r"\w+", code):
            used = getattr(module, name, None)
            home = inspect.getmodule(used) if inspect.isroutine(used) or inspect.isclass(used) else None
            if home not in (None, own, base) and home.__package__ == base.__package__ and used not in found:
                found[used] = inspect.getsource(used)
                follow(found[used], home)

    follow(inspect.getsource(own), own)
    files: dict[str, str] = {}
    for used in sorted(found, key=lambda used: inspect.getsourcelines(used)[1]):
        file = f"{used.__module__.replace('.', '/')}.py"
        files[file] = f"{files[file]}\n\n{found[used]}" if file in files else found[used]
    return files


def _setting(kind: type, field: dataclasses.Field) -> str:
    """A hyperparameter with its default, and the defaults that the method has at the smaller scales."""
    line = f"- `{field.name}` ({plain(field.default)}"
    for scale, benchmark in (("demo", "digits"), ("cpu", "pacs")):
        chosen = kind.defaults(scale, benchmark, None).get(field.name, field.default)
        line += f", at {scale} scale {plain(chosen)}" if chosen != field.default else ""
    return f"{line}): {field.metadata['help']}"
