"""The rules: what the runs of one benchmark at one scale say of a claim."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from scipy.stats import t

from hypo.algorithms import ALGORITHMS
from hypo.claims.checks import CHECKS
from hypo.claims.runs import POINTS, Evidence, Group, Run, made_with, values
from hypo.claims.statements import CONFIDENCE, label, many, printed, settings, typeable, words
from hypo.config import SCALES
from hypo.data.benchmarks import REGISTRY

VERDICTS = ("reproduced", "not reproduced", "not run")


class Mean(NamedTuple):
    """A mean in the unit of its measure and its standard error, 0 for one run, over the runs with these keys."""

    label: str
    mean: float
    error: float
    keys: list[tuple]
    files: frozenset[str]


def judge(claim: dict[str, Any], group: Group) -> Evidence:
    """What these runs say of the claim."""
    rule = claim["rule"]
    if rule["kind"] == "compare":
        return _compare(rule, group)
    if rule["kind"] == "limit":
        return _limit(rule, group)
    if rule["kind"] == "near":
        return _near(rule, group, printed(claim))
    return CHECKS[rule["name"]].run(group) if rule["kind"] == "check" else Evidence("not run", rule["reason"])


def _compare(rule: dict[str, Any], group: Group) -> Evidence:
    side = "above" if "above" in rule else "below"
    sign = 1 if side == "above" else -1
    combinations = itertools.product(many(rule["measure"]), settings(rule["of"]), settings(rule[side]))
    leads = [_lead(group.runs, *combination) for combination in combinations]
    ran = [lead for lead in leads if lead.keys]
    if not ran:
        return Evidence("not run", _command(group, settings(rule["of"]) + settings(rule[side])))
    spread = [lead for lead in ran if len(lead.keys) > 1]
    held = [lead for lead in spread if sign * lead.mean > _margin(lead)]
    least = min(spread or ran, key=lambda lead: sign * lead.mean - _margin(lead))
    text = _text(least, many(rule["measure"])[0], sign=True)
    if len(leads) > 1:
        absent = f", {len(leads) - len(spread)} not run" * (len(leads) > len(spread))
        text = f"{len(held)} of {len(leads)} hold{absent}; the least: {least.label} {text}"
    verdict = "not reproduced" if len(held) < len(spread) else "reproduced" if len(held) == len(leads) else "not run"
    return Evidence(verdict, text, len(least.keys), frozenset().union(*(lead.files for lead in ran)))


def _lead(runs: list[Run], measure: str, of: dict[str, Any], than: dict[str, Any]) -> Mean:
    """How far `of` is ahead of `than`, over the runs that both have with the same domain, seed, data and split."""
    ours, theirs = values(runs, of, measure), values(runs, than, measure)
    keys = sorted(ours.keys() & theirs.keys())
    files = frozenset(side[key][1] for key in keys for side in (ours, theirs))
    differences = [ours[key][0] - theirs[key][0] for key in keys]
    return _mean(differences, keys, files, f"{words(measure)}, {label(of)} less {label(than)}:")


def _limit(rule: dict[str, Any], group: Group) -> Evidence:
    found = values(group.runs, rule["of"], rule["measure"])
    if not found:
        return Evidence("not run", _command(group, [rule["of"]]))
    every, files = zip(*found.values(), strict=True)
    mean = _mean(every, sorted(found), frozenset(files))
    room = mean.mean - rule["above"] if "above" in rule else rule["below"] - mean.mean
    verdict = "not run" if len(found) < 2 else "reproduced" if room > _margin(mean) else "not reproduced"
    return Evidence(verdict, _text(mean, rule["measure"]), len(found), mean.files)


def _near(rule: dict[str, Any], group: Group, number: float) -> Evidence:
    """The mean over the seeds that have every domain, against the printed number."""
    found = values(group.runs, rule["of"], rule["measure"])
    by_seed: dict[int, list[float]] = {}
    for (_, seed, *_), (value, _) in found.items():
        by_seed.setdefault(seed, []).append(value)
    domains = 1 if group.corrupted else len(REGISTRY[group.benchmark].domains)
    whole = {seed: sum(each) / domains for seed, each in by_seed.items() if len(each) == domains}
    if not whole:
        return Evidence("not run", _command(group, [rule["of"]]))
    keys = [("", seed) for seed in sorted(whole)]
    files = frozenset(file for key, (_, file) in found.items() if key[1] in whole)
    mean = _mean([*whole.values()], keys, files)
    close = abs(mean.mean - number) <= rule["within"]
    verdict = "not run" if len(whole) < 2 else "reproduced" if close else "not reproduced"
    return Evidence(verdict, f"{_text(mean, rule['measure'])}, printed {number:g}", len(whole), mean.files)


def combined(parts: list[dict[tuple[str, str], Evidence]], names: list[str]) -> dict[tuple[str, str], Evidence]:
    """Evidence for several claims at once, by scale: all must be reproduced."""
    result = {}
    for scale in [scale for scale in SCALES if any(scale == at for part in parts for at, _ in part)]:
        found = [next((e for (at, _), e in part.items() if at == scale), Evidence("not run", "")) for part in parts]
        by_verdict = {
            verdict: [name for name, e in zip(names, found, strict=True) if e.verdict == verdict]
            for verdict in VERDICTS
        }
        verdict = next((v for v in ("not reproduced", "not run") if by_verdict[v]), "reproduced")
        text = "; ".join(f"{verdict}: {', '.join(which)}" for verdict, which in by_verdict.items() if which)
        judged = len(names) - len(by_verdict["not run"])
        files = frozenset().union(*(e.files for e in found))
        result[scale, "digits" if scale == "demo" else "their benchmarks"] = Evidence(verdict, text, judged, files)
    return result


def _mean(numbers: Sequence[float], keys: list[tuple], files: frozenset[str], label: str = "") -> Mean:
    series = pd.Series(numbers, dtype=float)
    return Mean(label, series.mean(), series.sem() if len(series) > 1 else 0.0, keys, files)


def _margin(mean: Mean) -> float:
    """Half the width of Student's interval around a mean; 0 for one run, which has none and is not judged."""
    return mean.error * t.ppf((1 + CONFIDENCE) / 2, len(mean.keys) - 1) if len(mean.keys) > 1 else 0.0


def _text(mean: Mean, measure: str, sign: bool = False) -> str:
    """The mean with its spread, unit and runs; without spread there is no verdict, and it says so."""
    form = f"{'+' if sign else ''}.{1 if measure in POINTS else 3}f"
    unit = (" points" if sign else "%") if measure in POINTS else ""
    domains = ", ".join(dict.fromkeys(key[0] for key in mean.keys if key[0]))
    seeds = len({key[1] for key in mean.keys})
    which = "; ".join(filter(None, [domains, f"{seeds} seed{'s' * (seeds > 1)}"]))
    if len(mean.keys) == 1:
        return f"{mean.mean:{form}}{unit} (n = 1: {which}, no spread to judge it by)"
    return f"{mean.mean:{form}} ± {mean.error:{form.removeprefix('+')}}{unit} (n = {len(mean.keys)}: {which})"


def _command(group: Group, wanted: list[dict[str, Any]]) -> str:
    """How to make the first of these settings that has no run, and how many others there are."""
    missing = [setting for setting in wanted if not made_with(group.runs, setting)]
    known = [setting for setting in missing if setting.get("algorithm", "hypo") in ALGORITHMS]
    unknown = [setting["algorithm"] for setting in missing if setting not in known]
    parts = []
    if known:
        fields = {"benchmark": group.benchmark, "scale": group.scale, "algorithm": "hypo"} | known[0]
        fields |= {"held_out": "none" if group.corrupted else "DOMAIN", "seed": "SEED"}
        options = [f"--{name.replace('_', '-')} {typeable(value)}" for name, value in fields.items()]
        others = f", and {len(known) - 1} other setting{'s' * (len(known) > 2)}" * (len(known) > 1)
        parts.append(f"hypo train {' '.join(options)}{others}")
    if unknown:
        parts.append(f"not implemented here: {', '.join(unknown)}")
    return "; ".join(parts) or "no two of these runs share domain, seed, data and split, or the measure is not stored"
