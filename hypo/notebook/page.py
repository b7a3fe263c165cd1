"""How a page begins: its parameters are checked, and its scale is chosen and said, in the first seconds."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any

from hypo import records
from hypo.config import FIELDS, Config, configure, identity
from hypo.data.benchmarks import REGISTRY, load, locate
from hypo.data.imageset import ImageSet
from hypo.suggest import one_of
from hypo.training.engine import choose_scale, run

PLAIN = (str, int, float, bool, type(None))


class ParameterError(ValueError):
    """A parameter that cannot be; a notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"ParameterError: {self}"]


@dataclass(frozen=True)
class Page:
    """What a page runs. Shown, it is the banner at its top.

    benchmark  the one the page is about; what is run is in `config` (the digits at demo scale)
    recorded   whether a record of this very run is there, so that nothing is trained
    why        why this scale
    """

    benchmark: str
    config: Config
    recorded: bool
    why: str
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def demo(self) -> bool:
        """Whether the digits stand in for the page's benchmark."""
        return self.config.benchmark != self.benchmark

    def run(self, **overrides: Any) -> dict[str, Any]:
        """The record of the page's run, trained now if need be, with `overrides` of its configuration."""
        main = ("benchmark", "algorithm", "held_out", "scale", "seed")
        chosen = {name: getattr(self.config, name) for name in main}
        return run(**chosen | self.overrides | overrides)

    def images(self) -> ImageSet | None:
        """The images behind the run, None when they are not on this machine."""
        here = self.config.benchmark not in REGISTRY or _here(self.config.benchmark)
        return load(self.config.benchmark, size=self.config.size) if here else None

    def _repr_html_(self) -> str:
        c = self.config
        tested = f"{c.held_out.replace('_', ' ')} held out" if c.held_out else "tested on corruptions"
        made = "Loaded from the record of an earlier run." if self.recorded else "Trained now."
        stands_in = f"The digits stand in for {self.benchmark}: all up to the paper's table is about digits."
        text = [
            f"<strong>{c.scale} scale</strong>: {c.algorithm} on {c.benchmark}, {tested}, seed {c.seed}. {made}",
            re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(self.why)) + f" {stands_in}" * self.demo,
        ]
        return f'<div class="hypo-banner">{"<br>".join(text)}</div>'


def begin(names: dict[str, Any], benchmark: str) -> Page:
    """Check the parameters of the page about `benchmark`, given as `globals()` of the cell after them.

    Every plain value among `names`, but for CONSTANTS, must be a field of `hypo.config.Config`; a misspelt one is
    refused with the nearest.
    scale None takes the largest scale that this machine is ready for, or of which a record is there.
    """
    own = {name: value for name, value in names.items() if not (name.startswith("_") or name.isupper())}
    given = {name: value for name, value in own.items() if isinstance(value, PLAIN)}
    try:
        for name in given:
            one_of("parameter", name, FIELDS)
        return _page(one_of("benchmark", benchmark, REGISTRY), **given)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _page(
    benchmark: str,
    algorithm: str = "hypo",
    held_out: str | None = None,
    scale: str | None = None,
    seed: int = 0,
    **overrides: Any,
) -> Page:
    domains = REGISTRY[benchmark].domains
    if held_out is not None:
        one_of(f"held_out domain of {benchmark}", held_out, domains)

    def configured(scale: str) -> Config:
        if scale != "demo" or benchmark == "digits":
            return configure(benchmark, algorithm, held_out, scale, seed, **overrides)
        return configure("digits", algorithm, _style(held_out, domains), "demo", seed, **overrides)

    def recorded(config: Config) -> bool:
        return records.find(records.config_hash(identity(config, ""))) is not None

    if scale is not None:
        why = "The scale was asked for."
    else:
        scale = choose_scale(benchmark)
        why = {
            "paper": "A GPU and the data are here.",
            "cpu": "The data is here, a GPU is not.",
            "demo": "They are built in."
            if benchmark == "digits"
            else f"{benchmark} is not on this machine; `hypo data {benchmark}` fetches it.",
        }[scale]
        larger = [s for s in ("paper", "cpu") if scale == "demo" and recorded(configured(s))]
        if larger:
            scale, why = larger[0], f"{why} A run on it is recorded, and shown."
    config = configured(scale)
    return Page(benchmark, config, recorded(config), why, overrides)


def _style(held_out: str | None, domains: tuple[str, ...]) -> str | None:
    """The style of the digits that stands in for a domain: of its name, else at its place."""
    styles = REGISTRY["digits"].domains
    return held_out if held_out is None or held_out in styles else styles[domains.index(held_out)]


def _here(benchmark: str) -> bool:
    return benchmark == "digits" or locate(benchmark, None) is not None
