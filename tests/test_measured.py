"""The geometry of a recorded run, by names, against the stored arrays."""

import numpy as np
import pandas as pd
import pytest
import torch

from hypo import geometry, measured
from hypo.figures.geometry import both_sides, heatmaps
from hypo.sphere import to_sphere

CLASSES, DOMAINS = ["cat", "dog"], ["art_painting", "photo", "sketch"]
RECORD = {"benchmark": {"classes": CLASSES, "domains": DOMAINS}, "config": {"temperature": 0.1}}


@pytest.fixture(autouse=True)
def stored(monkeypatch):
    """Two classes in two of three domains, the embeddings of each cell about a direction of its own."""
    random = torch.Generator().manual_seed(0)
    y, domains = torch.arange(120) % 2, torch.arange(120) // 2 % 2 * 2
    centres = torch.randn(2, 3, 8, generator=random, dtype=torch.float64)
    z = to_sphere(centres[y, domains] + 0.5 * torch.randn(120, 8, generator=random, dtype=torch.float64))
    prototypes = to_sphere(torch.stack([z[y == c].mean(0) for c in range(2)]))
    arrays = {"z": z, "y": y, "domains": domains, "prototypes": prototypes}
    monkeypatch.setattr(measured, "file_of", lambda _: None)
    monkeypatch.setattr(measured, "arrays_of", lambda _: arrays)
    return arrays


def test_variation_names_classes_and_pairs(stored):
    found = measured.variation(RECORD)
    assert found[["class", "pair"]].values.tolist() == [[c, "art painting – sketch"] for c in CLASSES]
    for c, value in enumerate(found["sinkhorn"]):
        own = stored["y"] == c
        plain = geometry.intra_class_variation(stored["z"][own], stored["y"][own], stored["domains"][own])
        np.testing.assert_allclose(value, plain["sinkhorn"].item())


def test_summary_is_scale_free_where_it_says_so():
    found = measured.summary(RECORD)
    assert found["V / I"] == pytest.approx(found["variation V, the largest"] / found["separation I"])
    assert found["variation, mean over classes and pairs"] <= found["variation V, the largest"]


def test_the_tightest_place_of_an_inequality_has_the_largest_ratio():
    sides = measured.sides(RECORD)
    nearest = measured.tightest(sides)
    assert not nearest.duplicated(["lemma", "quantity"]).any()
    for line in nearest.itertuples():
        own = sides[(sides["lemma"] == line.lemma) & (sides["quantity"] == line.quantity)]
        assert line.left / line.right == pytest.approx((own["left"] / own["right"]).max())
        assert line.holds == f"{own['holds'].sum()} of {len(own)}"
        assert (line.says != "") == bool(line.right >= line.at_most)
    assert set(sides["class"]) == {"", *CLASSES} and set(sides["domain_b"]) == {"", "sketch"}


def test_heatmaps_share_one_scale_and_give_their_numbers():
    low = measured.variation(RECORD)
    row = heatmaps({"ERM": low, "HYPO": low.assign(sinkhorn=low["sinkhorn"] / 2)}, ["a.json"])
    html = row._repr_html_()
    assert "variation-erm.csv" in html and "variation-hypo.csv" in html and "a.json" in html
    erm, hypo = (figure.images["light"] for figure in row.figures)
    assert erm != hypo
    alone = heatmaps({"ERM": low}).figures[0].images["light"]
    assert alone == erm, "the larger map sets the scale of both"
    smaller = heatmaps({"HYPO": low.assign(sinkhorn=low["sinkhorn"] / 2)}).figures[0].images["light"]
    assert smaller != hypo


def test_both_sides_says_how_many_bounds_are_worth_something():
    nearest = measured.tightest(measured.sides(RECORD))
    figure = both_sides(nearest, "sides")
    bounded = nearest[nearest["at_most"].notna()]
    assert f"in {(bounded['right'] < bounded['at_most']).sum()}." in figure.alt
    assert isinstance(nearest, pd.DataFrame)
