"""What the teaching pages compute and show: the likelihood, prototypes that part, the sphere that turns."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import labels, unit

from hypo import separation_loss, simplex_etf, variation_loss
from hypo.figures.etf import cosines_by_classes, gap_over_steps
from hypo.figures.method import sphere
from hypo.figures.performance import ratios
from hypo.figures.turning import TurningSphere
from hypo.geometry.learnt import learn_sphere
from hypo.geometry.prototypes import least_largest_cosine, spread_prototypes, vmf_likelihood


@pytest.mark.parametrize(("dim", "temperature"), [(3, 0.1), (16, 0.05), (128, 1.0)])
def test_the_variation_loss_is_the_likelihood_of_the_vmf_mixture(dim, temperature):
    z, mu, y = unit(50, dim), unit(6, dim, seed=1), labels(50, 6)
    likelihood = vmf_likelihood(z.numpy(), y.numpy(), mu.numpy(), temperature)
    assert variation_loss(z, y, mu, temperature).item() == pytest.approx(likelihood, rel=1e-10)
    with_negatives = variation_loss(z, y, mu, temperature, labels(50, 2, seed=1)).item()
    assert with_negatives > likelihood + 1e-3


@pytest.mark.parametrize(("classes", "dim"), [(2, 3), (3, 2), (4, 3), (7, 32)])
def test_free_prototypes_end_in_the_simplex_etf(classes, dim):
    prototypes, history = spread_prototypes(classes, dim)
    assert history["etf_gap"].iloc[0] > 0.1 and history["etf_gap"].iloc[-1] < 1e-6
    at_etf = separation_loss(simplex_etf(classes, dim, torch.float64), 0.1).item()
    assert history["separation"].iloc[-1] == pytest.approx(at_etf, abs=1e-9)
    assert np.allclose(
        prototypes @ prototypes.T, np.eye(classes) * classes / (classes - 1) - 1 / (classes - 1), atol=1e-6
    )


@pytest.mark.parametrize(("classes", "largest"), [(6, 0.0), (12, 1 / 5**0.5)])
def test_beyond_the_lemma_octahedron_and_icosahedron_are_reached_and_the_bound_is_theirs(classes, largest):
    _, history = spread_prototypes(classes, 3)
    end = history.iloc[-1]
    assert end["largest"] == pytest.approx(largest, abs=1e-6)
    assert least_largest_cosine(classes, 3) == pytest.approx(largest, abs=1e-12)
    assert end["mean"] == pytest.approx(-1 / (classes - 1), abs=1e-6)
    assert end["separation"] > -1 / (0.1 * (classes - 1)) + 0.1


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_no_set_of_vectors_is_below_the_bound_on_the_largest_cosine(dim):
    for classes in range(2, 4 * dim):
        bound = least_largest_cosine(classes, dim)
        for seed in range(20):
            mu = unit(classes, dim, seed=seed)
            assert (mu @ mu.T - 2 * torch.eye(classes)).max() >= bound - 1e-12
    assert least_largest_cosine(dim + 1, dim) == pytest.approx(-1 / dim)


@pytest.fixture(scope="module")
def learnt():
    return learn_sphere(classes=3, epochs=2)


def turning(learnt) -> TurningSphere:
    names = ["0", "1", "2"]
    still = sphere(learnt.embeddings[-1], learnt.labels, learnt.prototypes[-1], names, "epoch 2", "a still")
    readings = [f"epoch {epoch}: 1 < 2 </script>" for epoch in range(3)]
    return TurningSphere(learnt.embeddings, learnt.labels, learnt.prototypes, names, readings, 'digits & "more"', still)


def payload(figure: TurningSphere) -> tuple[dict, np.ndarray]:
    """What the page holds: the data, and its vectors (T + 1, N + C, 3)."""
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', figure._repr_html_(), re.DOTALL)
    data = json.loads(found)
    vectors = np.frombuffer(base64.b64decode(data["vectors"]), "<i2") / 32767
    return data, vectors.reshape(len(data["readings"]), len(data["labels"]) + len(data["names"]), 3)


def test_the_sphere_holds_what_was_learnt(learnt):
    data, vectors = payload(turning(learnt))
    assert data["readings"][2] == "epoch 2: 1 < 2 </script>"
    assert data["labels"] == learnt.labels.tolist()
    assert np.abs(vectors[:, :-3] - learnt.embeddings).max() < 2e-5
    assert np.abs(vectors[:, -3:] - learnt.prototypes).max() < 2e-5


def test_the_sphere_stays_small_however_long_the_training():
    z, mu = unit(101, 900, 3).numpy(), unit(101, 4, 3).numpy()
    y, still = np.arange(900) % 4, sphere(z[0], np.arange(900) % 4, mu[0], "abcd", "start", "a still")
    figure = TurningSphere(z, y, mu, "abcd", [""] * 101, "random", still)
    data, vectors = payload(figure)
    assert len(json.dumps(data)) < 300_000 and len(data["labels"]) >= 300
    assert np.abs(vectors[:, :-4] - z[:, ::3]).max() < 2e-5
    with pytest.raises(ValueError, match="markers for 10 classes, not 11"):
        TurningSphere(z, y, mu, "abcdefghijk", [""] * 101, "random", still)


def test_a_sphere_has_a_slider_for_each_axis_and_its_csv_names_every_frame(learnt):
    still = sphere(learnt.embeddings[-1], learnt.labels, learnt.prototypes[-1], "012", "end", "a still")
    axes, four = {"τ": (0.1, 0.5), "λ": (1.0, 4.0)}, [2, 1, 0, 2]
    shown = [array[four] for array in (learnt.embeddings, learnt.prototypes)]
    figure = TurningSphere(shown[0], learnt.labels, shown[1], "012", [*"abcd"], "digits", still, axes, start=1)
    html = figure._repr_html_()
    assert html.count('type="range"') == 2 and "<button" not in html and 'data-start="1"' in html
    data, _ = payload(figure)
    assert data["axes"] == [["τ", [0.1, 0.5]], ["λ", [1.0, 4.0]]]
    table = pd.read_csv(pd.io.common.BytesIO(base64.b64decode(re.search(r"csv;base64,([^\"]+)", figure.source)[1])))
    assert table[["τ", "λ"]].drop_duplicates().to_numpy().tolist() == [[0.1, 1], [0.1, 4], [0.5, 1], [0.5, 4]]


def test_the_sphere_has_a_still_a_label_and_no_address(learnt):
    html = turning(learnt)._repr_html_()
    assert 'alt="a still"' in html and 'role="img"' in html and 'tabindex="0"' in html
    assert "digits &amp; &quot;more&quot; Drag it" in html
    assert not re.search(r"https?://|src=\"(?!data:)", html)
    assert "prototypes-by-epoch.csv" in html


STEPS = """
const canvas = document.querySelector('canvas'), seen = [];
const state = canvas.dataset;
const note = () => seen.push([state.azimuth, state.elevation, state.epoch, canvas.toDataURL()]);
const press = key => canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
note(); press('ArrowLeft'); note(); press('ArrowUp'); note();
const slider = document.querySelector('input');
slider.value = 0; slider.dispatchEvent(new Event('input')); note();
document.title = seen.map(s => s.slice(0, 3).join(' ')).join(', ') + '; ' + new Set(seen.map(s => s[3])).size;
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here: on Debian `apt install chromium`")
def test_the_sphere_turns_with_the_keys_and_shows_epochs(learnt, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8>{turning(learnt)._repr_html_()}<script>{STEPS}</script>")
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--dump-dom",
    ]
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True).stdout
    (title,) = re.findall(r"<title>(.*?)</title>", shown)
    assert title == "35.0 20.0 2, 40.0 20.0 2, 40.0 15.0 2, 40.0 15.0 0; 4"


def test_figures_keep_their_numbers_and_say_what_they_show():
    _, history = spread_prototypes(3, 2, steps=3)
    reached = pd.DataFrame([history.iloc[-1]] * 2, index=[3, 5]).assign(bound=[-0.5, 0.0])
    rows = pd.DataFrame({"suite": ["core", "data"], "case": ["a", "b"], "ratio": [3.0, 0.5], "aim": [">= 2x", ""]})
    figures = [
        gap_over_steps({"C = 3": history}, "gap"),
        cosines_by_classes(reached.rename_axis("C"), 2),
        ratios(rows),
    ]
    for figure in figures:
        html = figure._repr_html_()
        assert figure.alt in html.replace("&#x27;", "'") and ".csv" in html
