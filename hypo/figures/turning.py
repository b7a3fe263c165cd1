"""The sphere that a reader turns: a canvas and a script of its own in the page, with nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from hypo.display import source
from hypo.figures import COLOURS, Row, Themed, asset

VECTORS = 36_000
"""The most vectors put into a page, 6 bytes each before base64; beyond it every k-th sample is shown."""

UNIT = 32_767
"""What 1 is stored as, in int16."""


class TurningSphere:
    """Embeddings in space, to be turned by mouse, touch or arrow keys, with a slider and a button for the epochs.

    embeddings  (T + 1, N, 3) unit vectors, entry 0 before training
    labels      (N,) classes
    prototypes  (T + 1, C, 3) unit vectors
    names       of the C classes, at most 10, short enough for a marker
    readings    T + 1 lines of text, shown with their epoch
    alt         alternative text: what a reader sees in it
    still       what is shown where scripts do not run, and in print

    The canvas carries its state in data-azimuth and data-elevation, in degrees, and data-epoch.
    """

    def __init__(
        self,
        embeddings: np.ndarray,
        labels: np.ndarray,
        prototypes: np.ndarray,
        names: Sequence[str],
        readings: Sequence[str],
        alt: str,
        still: Themed | Row,
    ) -> None:
        if len(names) > len(COLOURS):
            raise ValueError(f"the sphere has markers for {len(COLOURS)} classes, not {len(names)}: show fewer")
        frames, samples, _ = embeddings.shape
        shown = slice(None, None, math.ceil(frames * samples / VECTORS))
        vectors = np.concatenate([embeddings[:, shown], prototypes], axis=1)
        self.alt, self.still = alt, still
        self.payload = {
            "frames": frames,
            "labels": labels[shown].tolist(),
            "names": list(names),
            "colours": COLOURS[: len(names)],
            "readings": list(readings),
            "vectors": base64.b64encode(np.rint(vectors * UNIT).astype("<i2").tobytes()).decode(),
        }
        rows = prototypes.reshape(-1, 3).round(4)
        index = pd.MultiIndex.from_product([range(frames), list(names)], names=["epoch", "class"])
        self.source = source("prototypes-by-epoch", pd.DataFrame(rows, index, columns=["x", "y", "z"]))

    def _repr_html_(self) -> str:
        label = html.escape(f"{self.alt} Drag it, or use the arrow keys, to turn it.", quote=True)
        last = self.payload["frames"] - 1
        data = json.dumps(self.payload).replace("</", "<\\/")
        return f"""<style>{asset("sphere.css")}</style>
<figure class="hypo-sphere">
<div class="turning">
<canvas role="img" tabindex="0" aria-label="{label}"></canvas>
<div class="controls"><button type="button">Play</button>
<input type="range" min="0" max="{last}" value="{last}" aria-label="epoch"></div>
<output aria-live="off"></output>
</div>
<div class="still">{self.still._repr_html_()}</div>
<script type="application/json">{data}</script>
</figure>
<script>{asset("sphere.js")}</script>
{self.source}"""
