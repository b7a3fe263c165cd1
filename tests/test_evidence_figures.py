"""Figures of the evidence: every sample drawn where it belongs, numbers behind each, alternative text on each."""

import base64
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hypo.figures import MARKERS
from hypo.figures.ablations import contrasts, sweep, valley
from hypo.figures.data import beside, captioned
from hypo.figures.embeddings import Map, balanced, mapped, small_maps
from hypo.runs import Origin
from hypo.training.swad import interval

RECORD = [(Origin("r.json", "digits"),)]


def saved(html: str) -> pd.DataFrame:
    (encoded,) = re.findall(r'href="data:text/csv;base64,([^"]+)"', html)
    return pd.read_csv(io.BytesIO(base64.b64decode(encoded)))


def some(n=10):
    rng = np.random.default_rng(0)
    places = pd.DataFrame(rng.normal(size=(n, 4)), columns=["erm_x", "erm_y", "hypo_x", "hypo_y"])
    parts = ["ood_test" if i % 2 else "id_test" for i in range(n)]
    labels = {"index": range(n), "class": ["a", "b"] * (n // 2), "domain": ["photo", "sketch"] * (n // 2)}
    return pd.DataFrame(labels).assign(part=parts, **places, hypo_prediction="b")


def drawn(samples, images=None, classes=("a", "b")):
    methods = {"erm": "ERM", "hypo": "HYPO"}
    return Map(samples, methods, "A map.", "umap", images, classes, ["photo", "sketch"], RECORD)._repr_html_()


def test_a_map_draws_every_sample_once_for_each_method():
    samples = some()
    html = drawn(samples)
    panels = re.findall(r'<svg viewBox="0 0 400 400" role="img" tabindex="0" aria-label="([^"]+)">(.*?)</svg>', html)
    assert [label.split(".")[0] for label, _ in panels] == ["ERM", "HYPO"]
    assert all("A map." in label for label, _ in panels)
    for method, (_, inside) in zip(("erm", "hypo"), panels, strict=True):
        uses = re.findall(
            r'<use href="#map-\w+-(\d)" x="([\d.]+)" y="([\d.]+)" fill="#\w+"( class="unseen")?/>', inside
        )
        assert [int(marker) for marker, *_ in uses] == [0, 1] * 5
        assert [bool(unseen) for *_, unseen in uses] == (samples["part"] == "ood_test").tolist()
        x, y = (np.array([float(use[i]) for use in uses]) for i in (1, 2))
        assert (np.argsort(x, kind="stable") == np.argsort(samples[f"{method}_x"], kind="stable")).all()
        assert (np.argsort(-y, kind="stable") == np.argsort(samples[f"{method}_y"], kind="stable")).all()  # downwards
        assert min(x.min(), y.min()) > 0 and max(x.max(), y.max()) < 400
        assert np.ptp(x) > 350 and np.ptp(y) > 350, "the points fill their frame"
    pd.testing.assert_frame_equal(saved(html), samples)
    assert "r.json" in html


def test_the_image_of_a_sample_stands_at_its_place_in_the_sheet():
    images = np.stack([np.full((64, 64, 3), 20 * i, np.uint8) for i in range(10)])
    html = drawn(some(), images)
    grid = json.loads(re.search(r'<script type="application/json">(.*?)</script>', html).group(1))
    assert (grid["columns"], grid["rows"]) == (4, 3)
    assert grid["texts"][:2] == ["a, photo; HYPO says b", "b, sketch; HYPO says b"]
    (encoded,) = re.findall(r"url\(data:image/jpeg;base64,([^)]+)\)", html)
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))
    side = sheet.shape[1] // 4
    assert side == 48
    for i in range(10):
        middle = sheet[i // 4 * side + side // 2, i % 4 * side + side // 2]
        assert np.abs(middle.astype(int) - 20 * i).max() <= 4


def test_a_map_loads_nothing_and_closes_no_script_early():
    samples = some().assign(**{"class": "</script>"})
    html = drawn(samples, classes=["</script>"])
    assert html.count("</script>") == 2
    assert not re.search(r"(https?:)?//\w", re.sub(r"// .*", "", html).replace("data:", ""))
    assert "picture" not in html.split("</style>")[1].split("<script")[0]


def test_too_many_classes_are_refused():
    with pytest.raises(ValueError, match=f"markers for {len(MARKERS)} classes, not 11: show fewer"):
        drawn(some(), classes=list("abcdefghijk"))


def test_small_maps_are_one_figure_for_each_held_out_domain_with_its_own_numbers():
    maps = {"photo": some(), "sketch": some(8)}
    titles = {domain: {"erm": f"ERM on {domain}", "hypo": f"HYPO on {domain}"} for domain in maps}
    records = {domain: [(Origin(f"{domain}.json", "digits"),)] for domain in maps}
    row = small_maps(maps, titles, "umap", ["a", "b"], ["photo", "sketch"], records)
    for (domain, samples), figure in zip(maps.items(), row.figures, strict=True):
        html, numbers = figure_of(figure)
        pd.testing.assert_frame_equal(numbers, samples.assign(held_out=domain))
        assert f'download="umap-{domain}.csv"' in html and f"{domain}.json" in html
        assert f"{len(samples)} test images with {domain} held out" in figure.alt and f"HYPO on {domain}" in figure.alt
        assert 300 <= figure.width <= 360, "one fills a phone, and two stand side by side on a page"


def test_as_many_samples_of_each_domain():
    domains = pd.Series(["a"] * 50 + ["b"] * 5 + ["c"] * 20)
    chosen = balanced(domains, 30)
    assert len(set(chosen)) == len(chosen)
    assert domains.iloc[chosen].value_counts().to_dict() == {"a": 10, "c": 10, "b": 5}
    np.testing.assert_array_equal(chosen, balanced(domains, 30))


def test_a_map_is_of_the_same_images_only():
    frame = some()[["index", "class", "domain", "part"]].assign(prediction=None)
    with pytest.raises(ValueError, match="tested on different images"):
        mapped({"erm": (frame, np.ones((10, 2))), "hypo": (frame.assign(index=1), np.ones((10, 2)))}, 10)


def figure_of(figure) -> tuple[str, pd.DataFrame]:
    html = figure._repr_html_()
    assert html.count("only-light") == html.count("only-dark") == 1
    assert len(re.findall(r'alt="[^"]{10,}"', html)) == 2
    return html, saved(html)


def test_a_valley_is_the_interval_of_swad():
    losses = [2.0, 1.0, 0.5, 0.6, 0.7, *[0.9] * 8]
    frame = pd.DataFrame({"epoch": np.arange(1.0, 14), "loss": losses})
    html, numbers = figure_of(valley(frame, "valley", "A curve of the loss.", RECORD))
    start, end = interval(losses)
    assert (start, end) == (2, 4)
    assert numbers.loc[numbers["averaged"], "epoch"].tolist() == [3, 4, 5]
    assert "r.json" in html


@pytest.mark.parametrize("ran", [(0.5,), (0.5, 0.95)])
def test_a_sweep_is_drawn_from_whatever_was_run(ran):
    rows = [
        (value, "cartoon", seed, 50.0 + seed, False, (Origin(f"{value}-{seed}.json", "pacs"),))
        for value in ran
        for seed in range(2)
    ]
    single = pd.DataFrame(rows, columns=["momentum", "held_out", "seed", "value", "failed", "origins"])
    html, numbers = figure_of(sweep(single, "momentum", "a", 0.95, None, 45.0, "alpha", "Dots over alpha."))
    assert numbers["ood_accuracy_percent"].tolist() == [50.0, 51.0] * len(ran)
    assert "the paper's numbers" not in html and "real data" in html


def test_contrasts_of_the_paper_alone_and_with_ours():
    paper = {
        "row": "A − B",
        "who": "paper",
        "benchmark": "pacs",
        "scale": "",
        "column": "average",
        "value": 0.8,
        "low": np.nan,
        "high": np.nan,
        "n": 0,
        "origins": (),
    }
    ours = paper | {
        "who": "ours",
        "benchmark": "digits",
        "scale": "demo",
        "n": 3,
        "origins": (Origin("a.json", "digits"), Origin("b.json", "digits")),
    }
    ours |= {"low": 0.1, "high": 1.5}
    html, _ = figure_of(contrasts(pd.DataFrame([paper]), "ablations", "What a part adds."))
    assert "record" not in html
    html, numbers = figure_of(contrasts(pd.DataFrame([paper, ours]), "ablations", "What a part adds."))
    assert "2 records" in html and len(numbers) == 2


def test_images_are_drawn_by_group_with_their_captions_and_pairs_stand_side_by_side():
    frame = pd.DataFrame({"domain": ["photo", "photo", "sketch"], "cosine": [0.9, 0.8, 0.7]})
    both = np.stack([np.full((3, 16, 16, 3), shade, np.uint8) for shade in (10, 200)], axis=1)
    joined = beside(both)
    assert joined.shape == (3, 16, 34, 3) and (joined[0, 0, [0, 15, 18, 33], 0] == [10, 10, 200, 200]).all()
    figure = captioned(joined, [*frame["domain"]], ["a", "b", "c"], "hard", "Pairs of images.", frame, RECORD)
    html, numbers = figure_of(figure)
    assert numbers["cosine"].tolist() == [0.9, 0.8, 0.7] and ">digits<" in html
