"""Run the benchmarks, print a table and keep it as JSON: `python -m bench [--quick] [suite ...]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib import import_module
from pathlib import Path

import torch

SUITES = ("core", "corruptions", "loading", "training", "geometry", "blocks", "methods", "openmp", "memory", "scale")
HERE = Path(__file__).resolve().parents[1]


def show(suite: str, rows: list[dict]) -> None:
    print(f"\n{suite}\n{'case':<66} {'ours':>10} {'obvious':>10} {'':<6} {'ratio':>7}  aim")
    for r in rows:
        verdict = {True: "met", False: "NOT met", None: ""}[r["met"]]
        figures = f"{r['ours']:>10.2f} {r['obvious']:>10.2f} {r['unit']:<6} {r['ratio']:>6.1f}x"
        print(f"{r['case']:<66} {figures}  {r['aim']} {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help="which to run; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written: does it run?")
    options = parser.parse_args()
    machine = {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    path = HERE / "data" / "bench.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for suite in options.suite or SUITES:
        rows = import_module(f"bench.{suite}").run(quick=options.quick)
        show(suite, rows)
        if rows:  # none where its data is not here: what was measured before is kept
            kept[suite] = {"machine": machine, "rows": rows}
    if not options.quick:
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(kept, indent=1) + "\n")
        partial.replace(path)
        print(f"\nwritten to {path.relative_to(HERE)}")


if __name__ == "__main__":
    main()
