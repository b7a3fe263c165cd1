"""What a run is by default at each scale, above all the paper's recipe, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest

from hypo import records
from hypo.algorithms import ALGORITHMS, base, method
from hypo.config import GENERAL, MAIN, SCALES, Config, changed, configure, identity, settings, stored, typed
from hypo.data.augment import RECIPES
from hypo.data.benchmarks import REGISTRY
from hypo.records import identity_hash

SEARCHED_RATES = {0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005}
COMMON = {  # of every experiment in the paper
    "sgd_momentum": 0.9,
    "weight_decay": 1e-4,
    "views": 2,
    "warmup": 0.0,
    "head_lr": 1.0,
    "width": 1.0,
    "fraction": 0.1,
    "protocol": "paper",
    "accumulate": 1,
}
HYPO = {"temperature": 0.1, "momentum": 0.95, "prototypes": "ema", "separation": True, "start_temperature": None}
FINE_TUNED = {"weights": "IMAGENET1K_V1", "size": 224}
MULTI_SOURCE = FINE_TUNED | {"backbone": "resnet50", "epochs": 50, "dim": 512}
CIFAR = {"backbone": "resnet18", "weights": None, "epochs": 500, "lr": 0.5, "batch_size": 512, "dim": 128, "size": 32}
RECIPE = {
    "cifar10": CIFAR,
    "imagenet100": FINE_TUNED | {"backbone": "resnet34", "epochs": 10, "dim": 128},
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
        if algorithm == "hypo":
            assert {name: getattr(config.method, name) for name in HYPO} == HYPO
            assert config.method.hard_negatives == (len(domains) > 1)
            assert config.method.weight in {1.0, 2.0, 4.0}
        if benchmark != "cifar10":
            assert config.lr in SEARCHED_RATES and config.batch_size in {32, 64}


@pytest.mark.parametrize(
    "held_out, lr, weight", [("cartoon", 5e-4, 4), ("photo", 1e-4, 1), ("sketch", 2e-3, 2), ("art_painting", 5e-4, 1)]
)
def test_pacs_has_settings_of_its_own_for_each_domain(held_out, lr, weight):
    config = configure("pacs", "hypo", held_out, "paper")
    assert (config.lr, config.method.weight, config.batch_size) == (lr, weight, 32)
    assert configure("pacs", "hypo", held_out, "paper", lr=0.005).lr == 0.005


def test_the_augmentation_is_that_of_the_benchmark():
    assert configure("cifar10", scale="paper").augmentation == "cifar"
    assert configure("pacs", scale="paper").augmentation == configure("pacs", scale="cpu").augmentation == "pacs"
    assert configure("digits").augmentation == "digits"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("benchmark", ["digits", "cifar10", "pacs", "some/folder"])
def test_every_field_can_be_overridden_at_every_scale(scale, benchmark):
    other = {"int": 3, "float": 0.25, "bool": True, "str": "text"}
    valid = {"prototypes": "learnable", "precision": "float64", "head": "linear", "prototype_start": "validation"}
    valid |= {"backbone": "vgg11", "stem": "cifar", "protocol": "released", "augmentation": "none"}
    for name, field in settings("hypo").items():
        if name in MAIN:
            continue
        value = valid.get(name, other[str(field.type).partition(" ")[0]])
        config = configure(benchmark, scale=scale, **{name: value})
        assert getattr(config if name in GENERAL else config.method, name) == value
    assert configure(benchmark, scale=scale).augmentation in RECIPES


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"learning_rat": 1}, "unknown setting of hypo 'learning_rat': .*valid are backbone, weights"),
        ({"epoch": 1}, "did you mean epochs"),
        ({"hard_negative": True}, "did you mean hard_negatives"),
        ({"algorithm": "hyp0"}, "unknown algorithm 'hyp0': did you mean hypo"),
        ({"scale": "papper"}, "unknown scale 'papper': did you mean paper"),
        ({"prototypes": "learnabel"}, "did you mean learnable"),
        ({"precision": "float46"}, "did you mean float64"),
        ({"lr": 0}, "lr must be above 0, not 0"),
        ({"lr": "nan"}, "lr must be a finite number, not 'nan'"),
        ({"lr": float("inf")}, "lr must be a finite number, not inf"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"epochs": 2.5}, "epochs must be a whole number, not 2.5"),
        ({"epochs": "2.5"}, "epochs must be a whole number, not '2.5'"),
        ({"epochs": True}, "epochs must be a whole number, not True"),
        ({"lr": "fast"}, "lr must be a finite number, not 'fast'"),
        ({"compile": "yes"}, "compile must be true or false, not 'yes'"),
        ({"separation": 1}, "separation must be true or false, not 1"),
        ({"algorithm": "erm", "temperature": 1}, "unknown setting of erm 'temperature'"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"seed": "abc"}, "seed must be a whole number, not 'abc'"),
        ({"seed": 10**20}, "seed must be at least 0 and below"),
        ({"batch_size": 1}, "batch_size must be at least 2, not 1"),
        ({"fraction": 0}, "fraction must be above 0 and below 1, not 0"),
        ({"warmup": 2, "epochs": 1}, "warmup of 2 epochs is longer than the training: 1"),
        ({"backbone": 18}, "backbone must be text, not 18"),
        ({"corrupted_images": "few"}, "corrupted_images must be a whole number or none, not 'few'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(fields, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        configure("digits", **fields)
    assert "\n" not in str(error.value)


def test_text_of_the_command_line_becomes_the_type_of_its_field():
    given = {
        "lr": "1e-3",
        "epochs": "7",
        "compile": "true",
        "separation": "false",
        "weights": "none",
        "backbone": "vgg11",
    }
    known = settings("hypo")
    values = {name: typed(known[name], text) for name, text in given.items()}
    assert values == {
        "lr": 0.001,
        "epochs": 7,
        "compile": True,
        "separation": False,
        "weights": None,
        "backbone": "vgg11",
    }
    assert [type(value) for value in values.values()] == [float, int, bool, bool, type(None), str]
    assert configure("digits", **given) == configure("digits", **values)
    assert type(typed(known["lr"], 1)) is float
    assert [configure("digits", seed=seed).seed for seed in (np.int64(3), 3.0, "3")] == [3, 3, 3]


def test_a_configuration_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configure("digits").lr = 1.0


def test_identity_has_no_path(tmp_path, monkeypatch):
    folder, weights = tmp_path / "mine", tmp_path / "net.pth"
    folder.mkdir()
    weights.write_bytes(b"first")
    config = configure(str(folder), scale="cpu", weights=str(weights))
    kept = identity(config, "0123456789ab")
    assert (
        kept["data"] == "0123456789ab"
        and kept["benchmark"] == "mine@0123456789ab"
        and kept["weights"].startswith("net.pth@")
    )
    assert str(tmp_path) not in json.dumps(kept) and json.loads(json.dumps(kept)) == kept
    weights.write_bytes(b"second")
    assert identity(config, "0123456789ab")["weights"] != kept["weights"]
    monkeypatch.chdir(tmp_path)
    assert identity(configure("mine", scale="cpu", weights=None), "0123456789ab")["benchmark"] == kept["benchmark"]


def test_identity_of_a_benchmark_by_name_does_not_depend_on_where_it_is_run(tmp_path, monkeypatch):
    config = configure("pacs", scale="paper")
    before = identity_hash(identity(config, ""))
    (tmp_path / "pacs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert identity_hash(identity(config, "")) == before
    assert identity_hash(identity(configure("pacs", scale="paper", seed=1), "")) != before


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("augmentation", "pasc", "unknown augmentation 'pasc': did you mean pacs?"),
        ("protocol", "relesed", "unknown protocol 'relesed': did you mean released?"),
        ("backbone", "resnet5", "unknown backbone 'resnet5': did you mean resnet50?"),
        ("stem", "cfar", "unknown stem 'cfar': did you mean cifar?"),
        ("corrupted_images", 0, "corrupted_images must be at least 1, not 0"),
        ("warmup", -1.0, "warmup must be at least 0, not -1"),
        ("seed", -3, "seed must be at least 0 and below 4,294,967,296, not -3"),
        ("momentum", 1.0, "momentum must be at least 0 and below 1, not 1"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_any_data_is_read(field, value, sentence):
    main = {"seed": value} if field == "seed" else {}
    with pytest.raises(ValueError) as error:
        configure("pacs", "hypo", "cartoon", "cpu", **main, **({} if main else {field: value}))
    assert str(error.value).startswith(sentence)


def test_a_new_field_with_a_default_changes_no_identity_and_no_table(monkeypatch):
    """As if `Config` and a method each got one more field: old records are found, and stay at the defaults."""
    old = configure("pacs", "hypo", "cartoon", "cpu")
    known, kept = identity(old, "ab"), stored(old, "ab")

    @dataclasses.dataclass(frozen=True)
    class Longer(method("hypo").Hyperparameters):
        added: float = base.setting(0.5, "new")

    monkeypatch.setattr(method("hypo"), "Hyperparameters", Longer)
    new = configure("pacs", "hypo", "cartoon", "cpu")
    assert new.method.added == 0.5 and "added" not in kept
    assert identity_hash(identity(new, "ab")) == identity_hash(known)
    assert changed(kept) == {} and changed(kept | {"temperature": 0.2}) == {"temperature": 0.2}
    assert identity(configure("pacs", "hypo", "cartoon", "cpu", added=1), "ab") == known | {"added": 1.0}


def test_defaults_of_the_dataclass_are_part_of_every_identity_and_never_change():
    """A digest of name and default of each field: a change here orphans records; add a field instead."""
    assert identity_hash(identity(Config("pacs", "hypo", "cartoon", "paper"), "")) == identity_hash(
        {"benchmark": "pacs", "algorithm": "hypo", "held_out": "cartoon", "scale": "paper", "seed": 0, "data": ""}
    )
    recipe = {"backbone": "resnet18", "size": 224, "dim": 128, "epochs": 50, "batch_size": 32, "lr": 5e-4, "views": 2}
    assert {name: GENERAL[name].default for name in recipe} == recipe
    assert dataclasses.asdict(method("hypo").Hyperparameters()) == {
        "temperature": 0.1,
        "momentum": 0.95,
        "weight": 1.0,
        "prototypes": "ema",
        "separation": True,
        "hard_negatives": True,
        "start_temperature": None,
        "start_share": 0.3,
        "head": "mlp",
        "prototype_start": "batch",
        "centre": False,
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rates_are_of_one_method_at_cpu_scale_where_they_were_searched(name, monkeypatch):
    """Given to one method, they are no other's; a choice by hand goes before them."""
    places = [
        ("pacs", "cartoon", "cpu"),
        ("cifar10", None, "cpu"),
        ("pacs", "cartoon", "paper"),
        ("digits", "photo", "demo"),
    ]

    def rates() -> dict:
        configs = {(other, *place): configure(place[0], other, *place[1:]) for other in ALGORITHMS for place in places}
        return {key: (config.lr, config.head_lr) for key, config in configs.items()}

    assert set(method(name).rates) <= {"lr", "head_lr"}
    before = rates()
    monkeypatch.setattr(method(name), "rates", {"lr": 0.125, "head_lr": 7.0})
    after = rates()
    assert {key for key in after if after[key] != before[key]} == {(name, *places[0])}
    assert after[name, *places[0]] == (0.125, 7.0)
    assert configure("pacs", name, "cartoon", "cpu", lr=0.5).lr == 0.5


def test_every_committed_record_is_found_under_the_identity_of_its_settings():
    """Settings that differ from the defaults of today, given by hand, lead to the very file."""
    made = [*records.read_all(records.home() / "records")]
    assert made
    for path, record in made:
        main = {name: record["config"][name] for name in MAIN}
        known = identity(configure(**main, **changed(record["config"])), record["data"])
        assert records.name_of(known) == path.stem and known == record["identity"]


def test_how_a_run_is_carried_out_is_no_part_of_its_identity():
    plain = configure("pacs", "erm", "cartoon", "cpu")
    other = configure("pacs", "erm", "cartoon", "cpu", accumulate=4, compile=True, precision="float64")
    assert identity(plain, "") == identity(other, "") and changed(other.fields()) == {}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_settings_of_a_method_are_its_own_and_explained(name):
    own = dataclasses.fields(method(name).Hyperparameters)
    assert not {field.name for field in own} & set(GENERAL), "a name means one thing in a run"
    for field in (*own, *(field for field in GENERAL.values())):
        assert len(field.metadata["help"]) > 2
    for scale in SCALES:
        assert changed(configure("pacs", name, "cartoon", scale).fields()) == {}


def test_a_record_of_a_method_nobody_knows_any_more_can_still_be_compared():
    fields = configure("pacs", "erm", "cartoon", "demo").fields() | {"algorithm": "gone", "strength": 3}
    assert changed(fields) == {} and changed(fields | {"lr": 1.0}) == {"lr": 1.0}
