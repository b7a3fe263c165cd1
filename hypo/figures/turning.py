"""The sphere that a reader turns, with sliders over what was learnt: a canvas and a script in the page itself."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hypo.display import source
from hypo.figures import COLOURS, Row, Themed, asset
from hypo.report.table import DIGITS

VECTORS = 36_000
"""The most vectors put into a page, 6 bytes each before base64; beyond it every k-th sample is shown."""

UNIT = 32_767
"""What 1 is stored as, in int16."""


class TurningSphere:
    """Embeddings in space, to be turned by mouse, touch or arrow keys, with a slider for each axis of what is shown.

    embeddings  (F, N, 3) unit vectors of F frames
    labels      (N,) classes
    prototypes  (F, C, 3) unit vectors
    names       of the C classes, at most 10, short enough for a marker
    readings    F lines of text, each shown with its frame
    alt         alternative text: what a reader sees in it
    still       what is shown where scripts do not run, and in print
    axes        name -> values of each slider; a frame is one choice of each, the last axis running fastest. With the
                epochs as the only axis, a button plays them
    start       the frame that is shown first, the last where None

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
        axes: Mapping[str, Sequence[object]] | None = None,
        start: int | None = None,
    ) -> None:
        if len(names) > len(COLOURS):
            raise ValueError(f"the sphere has markers for {len(COLOURS)} classes, not {len(names)}: show fewer")
        frames, samples, _ = embeddings.shape
        shown = slice(None, None, math.ceil(frames * samples / VECTORS))
        vectors = np.concatenate([embeddings[:, shown], prototypes], axis=1)
        self.alt, self.still = alt, still
        self.axes = {"epoch": range(frames)} if axes is None else axes
        self.start = frames - 1 if start is None else start
        self.payload = {
            "axes": [(name, [*values]) for name, values in self.axes.items()],
            "labels": labels[shown].tolist(),
            "names": list(names),
            "colours": COLOURS[: len(names)],
            "readings": list(readings),
            "vectors": base64.b64encode(np.rint(vectors * UNIT).astype("<i2").tobytes()).decode(),
        }
        rows = prototypes.reshape(-1, 3).round(4)
        index = pd.MultiIndex.from_product([*self.axes.values(), list(names)], names=[*self.axes, "class"])
        saved = pd.DataFrame(rows, index, columns=["x", "y", "z"])
        self.source = source(f"prototypes-by-{'-'.join(self.axes)}", saved, also=(DIGITS,))

    def _repr_html_(self) -> str:
        label = html.escape(f"{self.alt} Drag it, or use the arrow keys, to turn it.", quote=True)
        play = '<button type="button">Play</button>' if len(self.axes) == 1 else ""
        sliders = "".join(
            f'<div class="controls">{play}<label>{html.escape(name)}</label>'
            f'<input type="range" min="0" max="{len(values) - 1}" aria-label="{html.escape(name)}"></div>'
            for name, values in self.axes.items()
        )
        data = json.dumps(self.payload).replace("</", "<\\/")
        return f"""<style>{asset("sphere.css")}</style>
<figure class="hypo-sphere" data-start="{self.start}">
<div class="turning">
<canvas role="img" tabindex="0" aria-label="{label}"></canvas>
{sliders}
<output aria-live="off"></output>
</div>
<div class="still">{self.still._repr_html_()}</div>
<script type="application/json">{data}</script>
</figure>
<script>{asset("sphere.js")}</script>
{self.source}"""
