"""What a step of each method costs, as `make bench` last measured it."""

from __future__ import annotations

import json

from hypo import records


def step_costs() -> dict[str, float]:
    """Time of a step on the digits over that of the reference, by method; without the reference itself."""
    path = records.home() / "bench.json"
    rows = json.loads(path.read_text()).get("methods", {"rows": []})["rows"] if path.exists() else []
    return {row["case"]: row["ours"] / row["obvious"] for row in rows}
