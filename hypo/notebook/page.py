"""How a page begins: its parameters are checked, and its scale is chosen and stated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hypo import runs
from hypo.claims import DIGITS_LIKE
from hypo.config import MAIN, Config, configure, settings
from hypo.data.benchmarks import REGISTRY, listed, load, locate, own_folder, own_name
from hypo.data.imageset import ImageSet
from hypo.display import banner, literally
from hypo.report import text
from hypo.suggest import one_of, sentence
from hypo.training.engine import choose_scale, recorded, run

PLAIN = (str, int, float, bool, type(None))


class ParameterError(ValueError):
    """A parameter that cannot be; a notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"ParameterError: {self}"]


@dataclass(frozen=True)
class Page:
    """What a page runs. Shown, it is the banner at its top.

    benchmark  the name of the one the page is about; what is run is in `config` (the digits at demo scale)
    recorded   whether a record of this very run is there, so that nothing is trained
    ready      whether the run is recorded or can be made here; if not, the page does without it
    why        why this scale
    """

    benchmark: str
    config: Config
    recorded: bool
    ready: bool
    why: str
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def demo(self) -> bool:
        """Whether the digits stand in for the page's benchmark."""
        return self.config.benchmark == "digits" != self.benchmark

    def run(self, **overrides: Any) -> pd.Series:
        """The page's run, trained now if need be, with `overrides` of its configuration: a row of `hypo.runs.load`."""
        chosen = {name: getattr(self.config, name) for name in MAIN}
        try:
            return runs.of(run(**chosen | self.overrides | overrides))
        except (ValueError, OSError) as error:
            raise ParameterError(sentence(error)) from None

    def by_held_out(self, *algorithms: str) -> dict[str, dict[str, pd.Series]]:
        """Held-out domain -> algorithm -> run as of `run`: the page's domain first.

        The others follow in the benchmark's order where all of the algorithms are recorded with their embeddings; for
        these nothing is trained.
        """
        own = {name: self.run(algorithm=name) for name in algorithms}
        found = {self.config.held_out or "": own}
        chosen = {name: getattr(self.config, name) for name in MAIN} | self.overrides
        for domain in own[algorithms[0]]["domains"] if self.config.held_out else ():
            kept = {
                name: recorded(configure(**chosen | {"algorithm": name, "held_out": domain})) for name in algorithms
            }
            rows = {name: runs.of(record) for name, record in kept.items() if record is not None}
            if len(rows) == len(kept) and all(runs.embeddings(row["path"]) is not None for row in rows.values()):
                found.setdefault(domain, rows)
        return found

    def images(self) -> ImageSet | None:
        """The images behind the run, None when they are not on this machine."""
        here = self.config.benchmark not in REGISTRY or _here(self.config.benchmark)
        return load(self.config.benchmark, size=self.config.size) if here else None

    def _repr_html_(self) -> str:
        c, name = self.config, text.data(self.benchmark)
        if not self.ready:
            return banner(f"**No run on {name} is recorded here.** {self.why}")
        tested = f"{text.words(c.held_out)} held out" if c.held_out else "tested on corruptions"
        run_on = text.data(c.benchmark if c.benchmark in REGISTRY else self.benchmark)
        made = "Loaded from the record of an earlier run." if self.recorded else "Trained now."
        stands_in = f" The run on this page is of the embedded digits, not of {name}." if self.demo else ""
        return banner(
            f"**{c.scale} scale**: {text.method_name(c.algorithm)} on {run_on}, {tested}, seed {c.seed}. {made}",
            (self.why + stands_in).strip(),
        )


def begin(names: dict[str, Any], benchmark: str) -> Page:
    """Check the parameters of the page about `benchmark`, given as `globals()` of the cell after them.

    Every plain value among `names`, except CONSTANTS, must be a setting of the page's method; a misspelt one is refused
    with the nearest. Scale None takes the largest scale that this machine is ready for, or that has a record.

    `benchmark` among `names` puts another benchmark, or the reader's own folder <domain>/<class>/<image>, in the place
    of the page's; a page about the digits alone has no such parameter.
    """
    own = {name: value for name, value in names.items() if not (name.startswith("_") or name.isupper())}
    given = {name: value for name, value in own.items() if isinstance(value, PLAIN)}
    try:
        known = settings(given.get("algorithm", "hypo"))
        for name in given:
            one_of("parameter", name, known)
        other = given.pop("benchmark", None)
        if other is not None and benchmark == "digits":
            raise ValueError(
                "this page is about the digits alone: give `benchmark` to the page of a benchmark, as pacs"
            )
        if given.get("held_out") is not None:
            given["held_out"] = str(given["held_out"])  # papermill takes a folder called 100 for a number
        return _page(benchmark, benchmark if other is None else str(other), **given)
    except (ValueError, OSError) as error:
        raise ParameterError(sentence(error)) from None


def _page(
    usual: str,
    benchmark: str,
    algorithm: str = "hypo",
    held_out: str | None = None,
    scale: str | None = None,
    seed: int = 0,
    **overrides: Any,
) -> Page:
    """The page about `usual`, run on `benchmark`: a name of the registry or a folder."""
    if benchmark in REGISTRY:
        shown, domains = benchmark, REGISTRY[benchmark].domains
    else:
        folder = own_folder(benchmark).absolute()
        benchmark, shown, found = str(folder), own_name(folder.resolve().name), listed(folder)
        domains, names = found.domain_names, (shown, *found.domain_names, *found.class_names)
        literally([*names, *map(text.words, names)])
    said = ""
    if usual != benchmark and held_out not in (None, *domains) and held_out in REGISTRY[usual].domains:
        said = f" {shown} has no domain {held_out}; its first, {domains[0]}, is held out. `held_out` chooses another."
        held_out = domains[0]
    if len(domains) < 2:
        held_out = None
    if held_out is not None:
        one_of(f"held_out domain of {shown}", held_out, domains)

    known = benchmark in REGISTRY

    def configured(scale: str) -> Config:
        data = "digits" if scale == "demo" and known else benchmark
        return configure(data, algorithm, held_out, scale, seed, **overrides)

    stands_in, ready, given = benchmark in ("digits", *DIGITS_LIKE), True, scale
    without_asking = benchmark in ("digits", usual) and usual in ("digits", "pacs")  # pages that need some run to show
    if given == "demo" and known and not stands_in:
        raise ValueError(f"demo scale is of the digits, and this page is about {benchmark}: choose cpu or paper")
    scale = given or choose_scale(benchmark)
    why = {
        "paper": "A GPU and the data are here.",
        "cpu": "The data is here, a GPU is not.",
        "demo": f"{text.data(benchmark)} is not on this machine; `hypo data {benchmark}` fetches it.",
    }.get(scale, "")
    why = "The scale was asked for." if given else "The digits come with the library." if benchmark == "digits" else why
    if scale == "demo" and not given and benchmark != "digits" and known:
        larger = [each for each in ("paper", "cpu") if recorded(configured(each)) is not None]
        ready = bool(larger) or without_asking
        scale = larger[0] if larger else "demo" if without_asking else "cpu"
        why += " The page shows a run on it that is recorded." if larger else ""
    config = configured(scale)
    return Page(shown, config, recorded(config) is not None, ready, why + said, overrides)


def _here(benchmark: str) -> bool:
    return benchmark == "digits" or locate(benchmark, None) is not None
