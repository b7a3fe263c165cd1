"""What a run is by default at each scale, above all the paper's recipe, and what is refused."""

import dataclasses
import json

import pytest

from hypo.config import FIELDS, SCALES, Config, configure, identity, typed
from hypo.data.augment import RECIPES
from hypo.data.benchmarks import REGISTRY
from hypo.records import config_hash

SEARCHED_RATES = {0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005}
COMMON = {  # of every experiment in the paper
    "sgd_momentum": 0.9,
    "weight_decay": 1e-4,
    "temperature": 0.1,
    "momentum": 0.95,
    "prototypes": "ema",
    "separation": True,
    "views": 2,
    "warmup": 0.0,
    "head_lr": 1.0,
    "width": 1.0,
    "fraction": 0.1,
    "protocol": "paper",
    "swad": False,
    "accumulate": 1,
}
FINE_TUNED = {"weights": "IMAGENET1K_V1", "size": 224}
MULTI_SOURCE = FINE_TUNED | {"backbone": "resnet50", "epochs": 50, "dim": 512, "hard_negatives": True}
CIFAR = {"backbone": "resnet18", "weights": None, "epochs": 500, "lr": 0.5, "batch_size": 512, "dim": 128, "size": 32}
RECIPE = {
    "cifar10": CIFAR | {"hard_negatives": False},
    "imagenet100": FINE_TUNED | {"backbone": "resnet34", "epochs": 10, "dim": 128, "hard_negatives": False},
    "pacs": MULTI_SOURCE,
    "office_home": MULTI_SOURCE,
    "vlcs": MULTI_SOURCE,
    "terra_incognita": MULTI_SOURCE,
}


@pytest.mark.parametrize("benchmark", RECIPE)
@pytest.mark.parametrize("algorithm", ["hypo", "erm"])
def test_paper_scale_is_the_recipe_of_the_paper(benchmark, algorithm):
    domains = REGISTRY[benchmark].domains
    for held_out in domains if len(domains) > 1 else [None]:
        config = configure(benchmark, algorithm, held_out, "paper")
        expected = COMMON | RECIPE[benchmark]
        assert {name: getattr(config, name) for name in expected} == expected
        assert config.weight in {1.0, 2.0, 4.0}
        if benchmark != "cifar10":
            assert config.lr in SEARCHED_RATES and config.batch_size in {32, 64}


@pytest.mark.parametrize(
    "held_out, lr, weight", [("cartoon", 5e-4, 4), ("photo", 1e-4, 1), ("sketch", 2e-3, 2), ("art_painting", 5e-4, 1)]
)
def test_pacs_has_settings_of_its_own_for_each_domain(held_out, lr, weight):
    config = configure("pacs", "hypo", held_out, "paper")
    assert (config.lr, config.weight, config.batch_size) == (lr, weight, 32)
    assert configure("pacs", "hypo", held_out, "paper", lr=0.005).lr == 0.005


def test_the_augmentation_is_that_of_the_benchmark():
    assert configure("cifar10", scale="paper").augmentation == configure("cifar10", scale="cpu").augmentation == "cifar"
    assert configure("pacs", scale="paper").augmentation == configure("pacs", scale="cpu").augmentation == "pacs"
    assert configure("digits").augmentation == "digits"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("benchmark", ["digits", "cifar10", "pacs", "some/folder"])
def test_every_field_can_be_overridden_at_every_scale(scale, benchmark):
    other = {"int": 3, "float": 0.25, "bool": True, "str": "text"}
    valid = {"prototypes": "learnable", "precision": "float64", "scale": scale, "algorithm": "erm"}
    valid |= {"backbone": "vgg11", "stem": "cifar", "protocol": "released", "augmentation": "none"}
    for name, field in FIELDS.items():
        if name in ("benchmark", "algorithm", "held_out", "scale", "seed"):
            continue
        value = valid.get(name, other[str(field.type).partition(" ")[0]])
        assert getattr(configure(benchmark, scale=scale, **{name: value}), name) == value
    assert configure(benchmark, scale=scale).augmentation in RECIPES


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"learning_rat": 1}, "unknown field 'learning_rat': .*valid are benchmark, algorithm"),
        ({"epoch": 1}, "did you mean epochs"),
        ({"hard_negative": True}, "did you mean hard_negatives"),
        ({"algorithm": "hyp0"}, "unknown algorithm 'hyp0': did you mean hypo"),
        ({"scale": "papper"}, "unknown scale 'papper': did you mean paper"),
        ({"prototypes": "learnabel"}, "did you mean learnable"),
        ({"precision": "float46"}, "did you mean float64"),
        ({"lr": 0}, "lr must be above 0, not 0.0"),
        ({"lr": "nan"}, "lr must be above 0, not nan"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"epochs": 2.5}, "epochs must be a whole number, not 2.5"),
        ({"epochs": "2.5"}, "epochs must be a whole number, not '2.5'"),
        ({"epochs": True}, "epochs must be a whole number, not True"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"swad": "yes"}, "swad must be true or false, not 'yes'"),
        ({"swad": 1}, "swad must be true or false, not 1"),
        ({"backbone": 18}, "backbone must be text, not 18"),
        ({"corrupted_images": "few"}, "corrupted_images must be a whole number or none, not 'few'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(fields, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        configure("digits", **fields)
    assert "\n" not in str(error.value)


def test_text_of_the_command_line_becomes_the_type_of_its_field():
    given = {"lr": "1e-3", "epochs": "7", "swad": "true", "separation": "false", "weights": "none", "backbone": "vgg11"}
    values = {name: typed(name, text) for name, text in given.items()}
    assert values == {"lr": 0.001, "epochs": 7, "swad": True, "separation": False, "weights": None, "backbone": "vgg11"}
    assert [type(value) for value in values.values()] == [float, int, bool, bool, type(None), str]
    assert configure("digits", **given) == configure("digits", **values)
    assert type(typed("lr", 1)) is float


def test_a_configuration_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configure("digits").lr = 1.0


def test_identity_has_all_fields_and_no_path(tmp_path, monkeypatch):
    folder, weights = tmp_path / "mine", tmp_path / "net.pth"
    folder.mkdir()
    weights.write_bytes(b"first")
    config = configure(str(folder), scale="cpu", weights=str(weights))
    kept = identity(config, "0123456789abcdef")
    assert list(kept) == [field.name for field in dataclasses.fields(Config)]
    assert kept["benchmark"] == "mine@01234567" and kept["weights"].startswith("net.pth@")
    assert str(tmp_path) not in json.dumps(kept) and json.loads(json.dumps(kept)) == kept
    weights.write_bytes(b"second")
    assert identity(config, "0123456789abcdef")["weights"] != kept["weights"]
    monkeypatch.chdir(tmp_path)
    assert identity(configure("mine", scale="cpu", weights=None), "0123456789abcdef")["benchmark"] == kept["benchmark"]


def test_identity_of_a_benchmark_by_name_does_not_depend_on_where_it_is_run(tmp_path, monkeypatch):
    config = configure("pacs", scale="paper")
    before = config_hash(identity(config, ""))
    (tmp_path / "pacs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert config_hash(identity(config, "")) == before
    assert config_hash(identity(configure("pacs", scale="paper", seed=1), "")) != before


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("augmentation", "pasc", "unknown augmentation 'pasc': did you mean pacs?"),
        ("protocol", "relesed", "unknown protocol 'relesed': did you mean released?"),
        ("backbone", "resnet5", "unknown backbone 'resnet5': did you mean resnet50?"),
        ("stem", "cfar", "unknown stem 'cfar': did you mean cifar?"),
        ("corrupted_images", 0, "corrupted_images must be at least 1, or none for all, not 0"),
        ("warmup", -1.0, "warmup must not be negative, not -1.0"),
        ("seed", -3, "seed must not be negative, not -3"),
        ("momentum", 1.0, "momentum must lie in [0, 1), not 1.0"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_any_data_is_read(field, value, sentence):
    main = {"seed": value} if field == "seed" else {}
    with pytest.raises(ValueError) as error:
        configure("pacs", "hypo", "cartoon", "cpu", **main, **({} if main else {field: value}))
    assert str(error.value).startswith(sentence)
