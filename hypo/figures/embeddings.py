"""Maps of embeddings in the plane, the same samples under two methods; pointing at a sample shows its image.

The map is SVG, so that it is all there on paper and without scripts; the script adds the image and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from PIL import Image

from hypo.display import source
from hypo.figures import COLOURS, MARKERS, THEMES, Row, Themed, asset, plain
from hypo.report.text import words
from hypo.runs import Origins

SIDE, MARGIN, RADIUS = 400, 14, 4.2  # of a map and its markers, in its own units
THUMBNAIL = 48  # pixels at most
UNSEEN = ' class="unseen"'
FIGURE_4 = {"photo": "#f3c17b", "art_painting": "#911c43", "cartoon": "#5b509d", "sketch": "#c6e4a7"}
"""The paper's colours of the domains: orange, red, violet, green."""


def balanced(domains: pd.Series, count: int, seed: int = 0) -> np.ndarray:
    """Positions of `count` samples at most, as many of each domain as that allows, in random order."""
    order = np.random.default_rng(seed).permutation(len(domains))
    rank = domains.iloc[order].groupby(domains.iloc[order]).cumcount()
    share = count // domains.nunique()
    return order[(rank < share).to_numpy()]


def umap(z: np.ndarray, seed: int = 0) -> np.ndarray:
    """UMAP of unit vectors (N, d) to the plane (N, 2) by cosine distance, the same each time; seconds to compile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import warns of packages that are not needed here
        from umap import UMAP

    return UMAP(metric="cosine", random_state=seed, n_jobs=1).fit_transform(z)


def mapped(stored: dict[str, tuple[pd.DataFrame, np.ndarray]], count: int, seed: int = 0) -> pd.DataFrame:
    """A map of `count` samples at most under each method, in the form that `Map` takes.

    stored  method -> `hypo.report.geometry.samples` of its run and z (N, d); all runs must have tested the same images
    """
    (frame, _), *others = stored.values()
    if any(not frame["index"].equals(other["index"]) for other, _ in others):
        raise ValueError("the methods were tested on different images; give runs with the same data, domain and seed")
    chosen = balanced(frame["domain"], count, seed)
    table = frame.iloc[chosen].drop(columns="prediction").reset_index(drop=True)
    for method, (own, z) in stored.items():
        table[[f"{method}_x", f"{method}_y"]] = umap(z[chosen], seed)
        if own["prediction"].notna().all():
            table[f"{method}_prediction"] = own["prediction"].to_numpy()[chosen]
    return table


def colours_of(domains: Sequence[str]) -> dict[str, str]:
    """A colour for each domain: the paper's where it has them all."""
    known = {*domains} <= {*FIGURE_4}
    return {domain: FIGURE_4[domain] if known else COLOURS[i] for i, domain in enumerate(domains)}


def small_maps(
    maps: Mapping[str, pd.DataFrame],
    titles: Mapping[str, Mapping[str, str]],
    name: str,
    classes: Sequence[str],
    domains: Sequence[str],
    records: Mapping[str, Sequence[Origins]],
) -> Row:
    """The maps of every held-out domain, small: two columns, on a phone one; a domain's methods are below each other.

    maps     held-out domain -> `mapped`
    titles   held-out domain -> name of the columns -> title of its map
    name     of the CSVs, before the domain's
    records  held-out domain -> the records behind its maps
    """
    colours = colours_of(domains)

    def small(domain: str, samples: pd.DataFrame) -> Themed:
        own = titles[domain]

        def draw(figure: Figure, theme: str) -> None:
            ink = THEMES[theme]["ink"]
            figure.suptitle(f"{plain(words(domain))} held out", fontsize=11)
            for axes, (method, title) in zip(figure.subplots(len(own), 1), own.items(), strict=True):
                at = pd.DataFrame(_fitted(samples[[f"{method}_x", f"{method}_y"]].to_numpy()), samples.index)
                for (c, e, part), some in at.groupby([samples["class"], samples["domain"], samples["part"]]):
                    edge = {"edgecolors": ink if part == "ood_test" else "none", "linewidths": 0.3}
                    look = {"marker": MARKERS[classes.index(c)], "color": colours[e], "alpha": 0.8, "s": 16}
                    axes.scatter(some[0], some[1], **look, **edge)
                axes.set(xlim=(0, SIDE), ylim=(SIDE, 0), xticks=[], yticks=[], aspect="equal")
                axes.set_title(plain(title), fontsize=10)
                axes.spines[:].set(visible=True, color=THEMES[theme]["faint"])

        alt = f"UMAP of {len(samples)} test images with {words(domain)} held out. {'; '.join(own.values())}."
        size, numbers = (3.4, 0.4 + 3.5 * len(own)), samples.assign(held_out=domain)
        return Themed(draw, alt, size, True, f"{name}-{domain}", numbers, records[domain])

    return Row(*(small(domain, samples) for domain, samples in maps.items()))


@dataclass(frozen=True)
class Map:
    """The same samples under several methods side by side: domains by colour, classes by marker.

    samples  one row per sample: index, class, domain, part (ood_test is outlined), and for each method its coordinates
             <method>_x, <method>_y and, where it is known, <method>_prediction
    methods  name of the columns -> title
    alt      alternative text: what a reader sees in it
    name     of the CSV, without its ending
    images   (N, H, W, 3) uint8 of the samples, None where they are not on this machine
    classes  names in the order of their markers
    domains  names in the order of their colours, where the paper's Figure 4 gives them none
    records  the records behind it: a column `origins`, or the like
    """

    samples: pd.DataFrame
    methods: dict[str, str]
    alt: str
    name: str
    images: np.ndarray | None
    classes: Sequence[str]
    domains: Sequence[str]
    records: Sequence[Origins] = ()

    def __post_init__(self) -> None:
        if len(self.classes) > len(MARKERS):
            raise ValueError(f"a map has markers for {len(MARKERS)} classes, not {len(self.classes)}: show fewer")

    @property
    def id(self) -> str:
        return "map-" + hashlib.sha256(self.samples.to_csv().encode()).hexdigest()[:8]

    @property
    def colours(self) -> dict[str, str]:
        return colours_of(self.domains)

    def _repr_html_(self) -> str:
        columns, name = math.ceil(math.sqrt(len(self.samples))), self.id
        grid = {"columns": columns, "rows": math.ceil(len(self.samples) / columns), "texts": self._texts()}
        picture = ""
        if self.images is not None:
            sheet = f"background-image:url({atlas(self.images, columns)});--columns:{100 * columns}%"
            picture = f'<div class="picture" style="{sheet}"></div>'
        data = json.dumps(grid).replace("</", "<\\/")
        shapes = "".join(f'<path id="{name}-{i}" d="{_shape(MARKERS[i])}"/>' for i in range(len(self.classes)))
        unseen = {*self.samples.loc[self.samples["part"] == "ood_test", "domain"]}
        key = "".join(
            self._entry(0, colour, words(e) + (" (held out, outlined)" if e in unseen else ""), e in unseen)
            for e, colour in self.colours.items()
        )
        classes = "".join(self._entry(i, "currentColor", c) for i, c in enumerate(self.classes))
        return f"""<style>{asset("map.css")}</style>
<div class="hypo-map">
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>{shapes}</defs></svg>
<div class="maps">{"".join(self._map(method, title) for method, title in self.methods.items())}</div>
<div class="key">{key}</div><div class="key">{classes}</div>
<div class="card" aria-live="polite" hidden>{picture}<p style="margin:0.3em 0 0"></p></div>
<script type="application/json">{data}</script>
</div>
<script>{asset("map.js")}</script>
{source(self.name, self.samples, self.records, ())}"""

    def _map(self, method: str, title: str) -> str:
        name, colours = self.id, self.colours
        at = _fitted(self.samples[[f"{method}_x", f"{method}_y"]].to_numpy())
        rows = zip(self.samples["class"], self.samples["domain"], self.samples["part"], at, strict=True)
        uses = "".join(
            f'<use href="#{name}-{self.classes.index(c)}" x="{x:.1f}" y="{y:.1f}" '
            f'fill="{colours[e]}"{UNSEEN if part == "ood_test" else ""}/>'
            for c, e, part, (x, y) in rows
        )
        label = html.escape(f"{title}. {self.alt} Arrow keys go from sample to sample.", quote=True)
        return (
            f"<figure><figcaption>{html.escape(title)}</figcaption>"
            f'<svg viewBox="0 0 {SIDE} {SIDE}" role="img" tabindex="0" aria-label="{label}">{uses}'
            f'<circle class="mark" r="{2 * RADIUS}"/></svg></figure>'
        )

    def _entry(self, marker: int, colour: str, text: str, unseen: bool = False) -> str:
        box = f"{-RADIUS - 1} {-RADIUS - 1} {2 * RADIUS + 2} {2 * RADIUS + 2}"
        use = f'<use href="#{self.id}-{marker}" fill="{colour}"{UNSEEN if unseen else ""}/>'
        return f'<span><svg viewBox="{box}" aria-hidden="true">{use}</svg>{html.escape(text)}</span>'

    def _texts(self) -> list[str]:
        predicted = [method for method in self.methods if f"{method}_prediction" in self.samples]
        return [
            f"{row['class']}, {words(row['domain'])}"
            + "".join(f"; {method.upper()} says {row[f'{method}_prediction']}" for method in predicted)
            for row in self.samples.to_dict("records")
        ]


def atlas(images: np.ndarray, columns: int) -> str:
    """Images (N, H, W, 3) in one sheet with so many to a row, as a data URI; none is larger than THUMBNAIL."""
    side = min(THUMBNAIL, images.shape[1])
    sheet = Image.new("RGB", (columns * side, math.ceil(len(images) / columns) * side))
    for i, image in enumerate(images):
        sheet.paste(Image.fromarray(image).resize((side, side)), (i % columns * side, i // columns * side))
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=70)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _fitted(points: np.ndarray) -> np.ndarray:
    """Points (N, 2) in the square of a map, y upwards: each axis filled from its 1st to its 99th percentile.

    The axes of a UMAP mean nothing, so each has a scale of its own; the few points beyond stand at the edge.
    """
    low, high = np.percentile(points, [1, 99], axis=0)
    within = np.clip((points - low) / np.maximum(high - low, 1e-9), 0, 1)
    return MARGIN + (SIDE - 2 * MARGIN) * np.where([False, True], 1 - within, within)


def _shape(marker: str) -> str:
    """A marker of matplotlib's as an SVG path around the origin, as large as a circle of RADIUS."""
    style = MarkerStyle(marker)
    polygons = style.get_path().transformed(style.get_transform()).to_polygons()
    largest = max(np.abs(polygon).max() for polygon in polygons)
    corners = [polygon * [1, -1] * RADIUS / largest for polygon in polygons]
    return "".join("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in polygon) + "Z" for polygon in corners)
