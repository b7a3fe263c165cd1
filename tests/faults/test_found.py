"""Faults that were found by trying, each kept out by a test: wrong numbers, lost work, crashes, misleading messages."""

import base64
import contextlib
import errno
import html
import io
import os
import re
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from made import PACS, a_record
from matplotlib.text import Text
from own_folder import QUICK, folder_of, words
from PIL import Image

import hypo
from hypo import HypoLoss, cli, records, runs
from hypo.config import identity
from hypo.data import cache, cifar
from hypo.data.benchmarks import corrupted, load
from hypo.data.folders import scan, shown
from hypo.display import show
from hypo.figures import plain
from hypo.figures.ablations import learning_curves
from hypo.figures.data import captioned, contact_sheet
from hypo.figures.geometry import heatmaps
from hypo.figures.problem import problem
from hypo.figures.results import confusion_matrix, dots
from hypo.notebook.cells import one_run
from hypo.notebook.page import ParameterError, begin
from hypo.report import benchmarks, cost, geometry, sensitivity, text
from hypo.report.named import named
from hypo.report.run import confusion, outcomes, without_embeddings
from hypo.report.table import Table, render
from hypo.runs import Origin
from hypo.training import checkpoint, engine
from hypo.training.trainer import Trainer


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    for name in ("RECORDS", "RUNS", "DATA"):
        monkeypatch.setenv(f"HYPO_{name}", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def never(monkeypatch):
    """No step may be made."""
    monkeypatch.setattr(Trainer, "step", lambda _: pytest.fail("trained before it refused"))


# Wrong numbers


def test_an_incomplete_benchmark_is_refused_by_name_and_is_a_folder_of_the_readers_by_path(tmp_path, capsys):
    folder = folder_of(tmp_path / "data" / "PACS", PACS, [f"class{i}" for i in range(7)], per_class=2)
    settings = words(held_out="photo", algorithm="erm", **QUICK | {"scale": "cpu", "backbone": "resnet18"})
    typed = ["train", *settings, "--weights", "none", "--benchmark"]
    assert cli.main([*typed, "pacs"]) == 2
    said = capsys.readouterr().err
    assert "pacs is incomplete: art_painting" in said and said.count("\n") == 1 and runs.load().empty
    assert cli.main([*typed, str(folder)]) == 0 and "ERM on ./PACS, cpu scale" in capsys.readouterr().out
    assert runs.load(benchmark="pacs").empty and "None of it was run here" in named("pacs").caption
    config = engine.configure("pacs", "erm", "photo", "cpu")
    assert identity(config, "one version") != identity(config, "another")


def test_a_cache_damaged_on_disk_is_noticed_and_built_anew(tmp_path, monkeypatch):
    listing = scan(folder_of(tmp_path / "mine"))
    whole = cache.decode(listing, 16, tmp_path / "cache")
    pixels = np.array(whole.images)  # the cache is a map of the file
    (array,) = (tmp_path / "cache").glob("*.npy")
    state, content = array.stat(), bytearray(array.read_bytes())
    content[-100] ^= 1
    array.write_bytes(content)
    os.utime(array, ns=(state.st_atime_ns, state.st_mtime_ns))
    monkeypatch.setattr(cache, "_checked", set())  # as another process
    with pytest.warns(RuntimeWarning, match=r"the image cache mine-.* is damaged, so it is built anew"):
        again = cache.decode(listing, 16, tmp_path / "cache")
    assert np.array_equal(again.images, pixels) and again.fingerprint == whole.fingerprint


def test_an_image_changed_within_its_size_and_time_is_noticed(tmp_path):
    folder = folder_of(tmp_path / "mine")
    before = load(folder, size=16)
    image = next(folder.glob("*/*/*.png"))
    state = image.stat()
    Image.new("L", (16, 16), 77).save(image)
    image.write_bytes(image.read_bytes().ljust(state.st_size, b"\0")[: max(state.st_size, image.stat().st_size)])
    os.truncate(image, state.st_size)
    os.utime(image, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (image.stat().st_size, image.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    assert load(folder, size=16).fingerprint != before.fingerprint


def test_a_folder_called_like_a_benchmark_is_a_folder_everywhere(tmp_path, capsys):
    folder_of(tmp_path / "digits", ("photo", "art", "print"))
    assert cli.main(["train", *words(benchmark="./digits", held_out="art", algorithm="erm", **QUICK)]) == 0
    assert "ERM on ./digits, demo scale" in capsys.readouterr().out
    assert cli.main(["doctor", "./digits"]) == 0
    assert "72 images: art 24, photo 24, print 24" in capsys.readouterr().out
    assert [*runs.load()["benchmark"]] == ["./digits"]
    assert runs.load(benchmark="digits").empty
    assert "art" in render(named("./digits")) and "None of it was run here" in named("digits").caption
    assert begin({"benchmark": str(tmp_path / "digits"), "scale": "demo"}, "pacs").benchmark == "./digits"


@pytest.mark.parametrize("name", ["none", "each"])
def test_a_domain_may_have_any_name_that_the_command_line_has_a_meaning_for(tmp_path, capsys, name):
    folder_of(tmp_path / "mine", (name, "street"))
    assert cli.main(["sweep", *words(benchmark="mine", held_out=name, algorithm="erm", **QUICK)]) == 0
    assert "OOD" in capsys.readouterr().out
    assert [*runs.load()["held_out"]] == [name]


# Lost work


@pytest.mark.usefixtures("never")
def test_a_name_that_is_no_text_is_refused_before_training(tmp_path, capsys):
    folder = folder_of(tmp_path / "mine")
    (folder / "street" / "hen").rename(os.fsdecode(os.fsencode(folder / "street") + b"/h\xe9n"))
    assert cli.main(["train", *words(benchmark="mine", held_out="street", **QUICK)]) == 2
    said = capsys.readouterr().err
    assert "'h\\udce9n'" in said and "rename it" in said and said.count("\n") == 1


def test_odd_names_of_folders_and_files_are_stored(tmp_path):
    classes = ["dog ", "C:\\x", "=a", 'b"', "<script>", "$\\frac{a$", "日本", "d" * 200]
    folder = folder_of(tmp_path / "a (b=", ("domain (", "C:", "e" * 200), classes, 4)
    for label in ("dog ", 'b"'):
        (folder / "domain (" / label / "broken.png").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(folder / "C:" / "=a") + b"/\xff.png")).write_bytes(b"")
    record = hypo.run(folder, "erm", "e" * 200, **QUICK)
    assert {*record["benchmark"]["classes"]} == {*classes}
    assert record["benchmark"]["notes"][0].startswith("3 unreadable images skipped: ")
    assert hypo.run(folder, "erm", "e" * 200, **QUICK) == record


@pytest.mark.parametrize(
    "path", ["a /b", "a'/b", 'a"/b', "a(/b", "a=/b", "C:/b", "x C:\\b", "\\\\b", "\n/b", "\udcff/b"]
)
def test_a_relative_path_in_a_note_never_looks_absolute(path):
    record = a_record()
    record["benchmark"]["notes"] = [f"skipped: {shown(path)}, {shown(path)}"]
    records.ready(record)


@pytest.mark.usefixtures("never")
def test_a_records_folder_that_cannot_be_written_to_is_known_before_training(tmp_path, monkeypatch, capsys):
    """A file stands in its place: modes of folders mean nothing to root."""
    folder_of(tmp_path / "mine")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path / "file" / "records"))
    assert cli.main(["train", *words(benchmark="mine", held_out="street", **QUICK)]) == 2
    said = capsys.readouterr().err
    assert "no record can be written to" in said and "set $HYPO_RECORDS" in said and said.count("\n") == 1


def test_a_full_disk_names_the_file_and_the_checkpoint_that_is_safe(tmp_path, monkeypatch, capsys):
    folder_of(tmp_path / "mine")
    typed = ["train", *words(benchmark="mine", held_out="street", **QUICK)]

    def full(*_, **__):
        raise OSError(28, "No space left on device", "a-record.json")

    monkeypatch.setattr(records, "write_atomically", full)
    assert cli.main(typed) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("hypo: No space left on device: a-record.json; the last good checkpoint is step-00000000")
    monkeypatch.undo()
    for name in ("RECORDS", "RUNS", "DATA"):
        monkeypatch.setenv(f"HYPO_{name}", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    assert cli.main(typed) == 0
    assert "resumed at step 5 of 5" in capsys.readouterr().err
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", -1)
    monkeypatch.setattr(checkpoint, "write_atomically", full)
    assert cli.main([*typed, "--seed", "1"]) == 2
    assert "there was no checkpoint yet; make room" in capsys.readouterr().err.splitlines()[-1]


def test_a_run_without_memory_names_the_checkpoint_and_loads_nothing(tmp_path, monkeypatch, capsys):
    folder_of(tmp_path / "mine")
    typed = ["train", *words(benchmark="mine", held_out="street", **QUICK)]

    def cleaned_up(*_):
        try:
            raise MemoryError
        except MemoryError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904 - as torch.save does

    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", -1)
    true_step, steps = Trainer.step, []
    monkeypatch.setattr(Trainer, "step", lambda self: cleaned_up() if steps else steps.append(true_step(self)))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("loaded a checkpoint"))
    assert cli.main(typed) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("hypo: there is not enough memory for this run; the last good checkpoint is step-00000000")

    def none_left(*_, **__):
        raise MemoryError

    for place, name in ((engine, "load"), (cli, "_parser")):
        monkeypatch.setattr(place, name, none_left)
        assert cli.main(typed) == 2
        assert capsys.readouterr().err.startswith("hypo: there is not enough memory")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("operator torchvision::nms does not exist"), "hypo: torchvision cannot be loaded: there is not"),
        (ImportError("_ufuncs.so: failed to map segment from shared object"), "hypo: there is not enough memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "runs"), "hypo: there is not enough memory"),
        (SystemError("error return without exception set"), "hypo: there is not enough memory"),
    ],
)
def test_a_library_that_gets_no_memory_is_one_sentence(tmp_path, monkeypatch, capsys, error, said):
    """As torchvision does, which is loaded when the network is made: `make faults` found it."""

    def not_loaded(*_, **__):
        raise error

    folder_of(tmp_path / "mine")
    monkeypatch.setattr(engine, "Trainer", not_loaded)
    assert cli.main(["train", *words(benchmark="mine", held_out="street", **QUICK)]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(said)


def test_what_was_not_measured_is_no_blank(tmp_path, capsys):
    folder = folder_of(tmp_path / "mine", per_class=4)
    for domain in ("indoors", "outdoors"):
        (folder / domain / "hen").rename(tmp_path / domain)
    assert cli.main(["train", *words(benchmark="mine", held_out="street", algorithm="erm", **QUICK)]) == 0
    assert "epsilon-hat not measured" in capsys.readouterr().out


def test_a_class_that_no_training_image_or_no_validation_image_has_loses_no_run(tmp_path):
    folder = folder_of(tmp_path / "mine", per_class=4)
    for domain in ("indoors", "outdoors"):
        (folder / domain / "hen").rename(tmp_path / domain)
    for algorithm in ("erm", "hypo"):
        run = runs.of(hypo.run(folder, algorithm, "street", **QUICK))
        assert (
            run["sizes"]["validation"] == 2
            and confusion_matrix(confusion(outcomes(run), run["classes"]), "it")._repr_html_()
        )
        assert (run["validation.epsilon_hat"] is None) == (algorithm == "erm")


def test_a_folder_called_like_cifar10_is_not_tested_on_its_published_corruptions(tmp_path, monkeypatch):
    images = load(folder_of(tmp_path / "cifar10"), size=16)
    monkeypatch.setattr("hypo.data.cifar.cifar10c", lambda *_: pytest.fail("another benchmark's images"))
    (tmp_path / "data" / "CIFAR-10-C").mkdir(parents=True)
    for name in ("labels", "gaussian_noise"):
        np.save(tmp_path / "data" / "CIFAR-10-C" / f"{name}.npy", np.zeros(1))
    pixels, _, source = corrupted(images.name, "gaussian_noise", 3, None, images)
    assert len(pixels) == len(images) and source == "generated"


# Crashes


def test_domains_may_be_called_like_the_columns_of_a_table(tmp_path):
    odd = ("average", "clean", "method", "numbers", "rank", "a_b", "a b")
    for domain in odd:
        records.write(a_record("mine", "hypo", domain, ood=0.5, domains=odd), None, tmp_path / "records")
    for domain in ("average", "clean"):
        other = a_record("mine", "erm", domain, ood=0.25, domains=odd)
        records.write(other, None, tmp_path / "records")
    table = named("mine")
    columns = [*table.frame]
    assert columns[-7:] == [*(f"{name} (domain)" for name in odd[:5]), "a_b", "a b"]
    assert "average" in columns[:-7] and "50.0" in [*table.frame["average"]]
    assert "average (domain)" in render(table) and "average (domain)" in show(table).text


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"seed": "abc"}, "seed must be a whole number, not 'abc'"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"seed": 1.5}, "seed must be a whole number, not 1.5"),
        ({"seed": "1" * 20}, "seed must be at least 0 and below 4,294,967,296"),
        ({"lr": "inf"}, "lr must be a finite number"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"fraction": 0}, "fraction must be above 0 and below 1"),
        ({"accumulate": 100}, "accumulate 100 leaves fewer than 2 images of a batch of 8 to a part"),
        ({"warmup": 2, "epochs": 1}, "warmup of 2 epochs is longer than the training: 1"),
        ({"precision": "bfloat16"}, "bfloat16 is for GPUs"),
        ({"weights": "Nonsense"}, "Nonsense"),
        ({"weights": "/no/where.pth"}, "no weights file /no/where.pth"),
        ({"scale": "cpu", "size": 112}, "digits is 32 pixels wide, not 112: set size to 32, as at demo scale"),
    ],
)
@pytest.mark.usefixtures("never")
def test_a_value_that_cannot_be_is_one_sentence_before_training(given, sentence, capsys):
    if given.get("precision") and torch.cuda.is_available():
        pytest.skip("a GPU has bfloat16")
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        hypo.run("digits", held_out="photo", **QUICK | {"size": 32} | given)
    assert "\n" not in str(error.value)
    assert cli.main(["train", *words(benchmark="digits", held_out="photo", **QUICK | {"size": 32} | given)]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("hypo: ")


@pytest.mark.parametrize("seed", [np.int64(3), 3.0, "3", np.float64(3)])
def test_a_seed_is_a_number_however_it_is_given(seed):
    assert engine.configure("digits", seed=seed).seed == 3


def test_a_page_runs_on_a_folder_of_the_readers(tmp_path):
    folder_of(tmp_path / "mine")
    page = begin({"held_out": "cartoon", "benchmark": "mine", "scale": "demo", "seed": 3}, "pacs")
    assert (page.benchmark, page.config.held_out, page.demo) == ("mine", "indoors", False)
    assert "HYPO on mine, indoors held out" in page._repr_html_()
    assert "mine has no domain cartoon; its first, indoors, is held out" in page._repr_html_()
    assert begin({"held_out": "street", "benchmark": str(tmp_path / "mine")}, "vlcs").config.held_out == "street"
    assert begin({"benchmark": "mine", "scale": "demo"}, "cifar10").config.held_out is None
    assert len(page.images()) == 72
    small = begin({"benchmark": "mine", "held_out": "street", "algorithm": "erm", **QUICK}, "pacs")
    run = small.run()
    assert run["benchmark"] == small.benchmark and len(run["path"].read_bytes())
    assert small.config.batch_size == 8 and "street" in render(benchmarks.table(small.benchmark))
    assert cost.table("pacs", "street").caption == cost.table("pacs").caption


@pytest.mark.parametrize(
    "given, about, sentence",
    [
        ({"benchmark": "mein"}, "pacs", "unknown benchmark 'mein'"),
        ({"benchmark": "no/where"}, "pacs", "no/where is not a folder"),
        (
            {"benchmark": "mine", "held_out": "streat"},
            "pacs",
            "unknown held_out domain of mine 'streat': did you mean street?",
        ),
        ({"benchmark": "mine"}, "digits", "this page is about the digits alone"),
        ({"benchmark": "mine", "seed": "abc"}, "pacs", "seed must be a whole number"),
    ],
)
def test_a_bad_parameter_of_such_a_page_is_one_sentence(tmp_path, given, about, sentence):
    folder_of(tmp_path / "mine", per_class=2)
    with pytest.raises(ParameterError, match=re.escape(sentence)):
        begin(given, about)


@pytest.mark.parametrize("typed", [["doctor", "~nobody-here"], ["train", "--benchmark", "~nobody-here/x"]])
def test_the_home_of_a_user_who_is_not_there_is_one_sentence(capsys, typed):
    assert cli.main(typed) == 2
    said = capsys.readouterr().err
    assert "~nobody-here" in said and said.count("\n") == 1


def test_a_domain_called_by_a_number_is_held_out(tmp_path):
    folder_of(tmp_path / "mine", ("100", "38"), per_class=2)
    assert begin({"benchmark": "mine", "held_out": 100}, "pacs").config.held_out == "100"


NAMES = ("$\\frac{a$", "[x](javascript:alert(1))", "<script>alert(1)</script>", '" onload="alert(1)', "[x](http://a.b)")


def test_names_of_folders_are_text_wherever_they_are_shown():
    import pandas as pd

    counts = pd.DataFrame(np.eye(len(NAMES), dtype=int), pd.Index(NAMES, name="class"), list(NAMES))
    shown_as = [confusion_matrix(counts, NAMES[0])._repr_html_()]
    for name in NAMES:
        frame = pd.DataFrame({name: [name]})
        shown_as += [show(Table(frame, name, name, [(Origin(name, name),)])).text, show(name).text]
    for page in shown_as:
        visible = re.sub(r"base64,[\w+/=]*", "", page)
        assert "<script" not in visible and 'href="javascript' not in visible and 'href="http' not in visible
        assert not re.search(r'<[^>]*" onload="', visible)


MARKED = ("**x**", "`d2`", "[a](intro.html)", "a_**b**")


def test_marks_in_the_names_of_a_readers_folder_are_text_on_its_pages(tmp_path, monkeypatch):
    monkeypatch.setattr("hypo.display._literal", set())
    folder_of(tmp_path / "**mine**", ("`d2`", "in doors"), MARKED, per_class=2)
    page = begin({"benchmark": str(tmp_path / "**mine**"), "held_out": "`d2`"}, "pacs")
    shown_as = [page._repr_html_(), *(show(f"**bold** `code` of {name}, {name}").text for name in MARKED)]
    for page in shown_as:
        assert page.count("<strong>") == 1 and page.count("<code>") == page.count("bold") and "<a" not in page
    assert "`d2` held out" in shown_as[0] and "**mine**" in shown_as[0]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), MemoryError()], ids=["disk", "memory"])
def test_an_image_that_the_machine_cannot_read_now_is_not_left_out(tmp_path, monkeypatch, error):
    folder, true = folder_of(tmp_path / "mine"), cache.load_image

    def fails(path, size):
        if path.name == sorted(p.name for p in path.parent.iterdir())[1]:
            raise error
        return true(path, size)

    monkeypatch.setattr(cache, "load_image", fails)
    said = r"cannot be read now \(Input/output error\), and no image is left out for that" if error.args else None
    with pytest.raises((ValueError, MemoryError), match=said):
        cache.decode(scan(folder), 8, tmp_path / "cache")
    assert not [*(tmp_path / "cache").glob("*.npy")]
    monkeypatch.undo()
    images = cache.decode(scan(folder), 8, tmp_path / "cache")
    assert len(images.images) == sum(path.is_file() for path in folder.rglob("*")) and not images.notes


@pytest.mark.parametrize("megabytes", [300, 700, 1500])
def test_a_command_without_the_memory_to_load_its_libraries_ends_in_one_sentence(megabytes):
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)

    command = [sys.executable, "-m", "hypo", "train", "--benchmark", "digits"]
    ended = subprocess.run(command, preexec_fn=little, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "there is not enough memory" in ended.stderr.splitlines()[-1], ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_place_for_checkpoints_that_is_no_folder_is_one_sentence_that_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RUNS", os.devnull)
    with pytest.raises(OSError, match=r"no checkpoint can be written to .*: set \$HYPO_RUNS to another folder"):
        hypo.run(folder_of(tmp_path / "mine"), "erm", "street", **QUICK)


def test_a_folder_has_its_table_by_path_and_its_page_a_command_that_can_be_typed(tmp_path, capsys, monkeypatch):
    hypo.run(folder_of(tmp_path / "mine", ("in doors", "street")), "hypo", "in doors", **QUICK)
    assert cli.main(["table", "mine/"]) == 0 and "in doors" in capsys.readouterr().out
    shown_as = []
    monkeypatch.setattr("hypo.notebook.cells.display", shown_as.append)
    one_run(begin({"benchmark": "mine", "held_out": "in doors", **QUICK}, "pacs"))
    said = html.unescape(" ".join(part._repr_html_() for part in shown_as[:2]))
    assert "papermill book/pacs.ipynb -p benchmark path/to/mine -p held_out 'in doors' -p epochs 1" in said


def test_the_notes_of_a_run_are_said_again_when_it_was_recorded_before(tmp_path, capsys):
    folder = folder_of(tmp_path / "mine")
    next(folder.rglob("*.png")).write_bytes(b"no image")
    for _ in range(2):
        hypo.run(folder, "erm", "street", **QUICK)
        assert "1 unreadable image skipped" in capsys.readouterr().err


def test_names_of_folders_are_no_formulas_in_a_spreadsheet():
    import pandas as pd

    names = ["=cmd()", "@a", "-2+3+cmd|'a'!A0", "+b", "=1+1", "@1", "-1.5", "+2.0 [+1, +3]", "a=b"]
    counts = pd.DataFrame(np.eye(len(names), dtype=int), pd.Index(names, name="class"), names)
    cells = pd.DataFrame({"class": names, "value": -1.5})
    for frame, odd in ((counts, 12), (cells, 6)):
        encoded = re.search(r"base64,([\w+/=]*)", show(Table(frame, "it", "", [])).text)[1]
        saved = pd.read_csv(io.BytesIO(base64.b64decode(encoded)))
        fields = [*saved, *saved["class"]]
        assert sum(field.startswith("'") for field in fields) == odd and not any(map(re.compile("[=@]").match, fields))
        assert [*saved["class"]] == [f"'{name}" for name in names[:6]] + names[6:]
        assert (saved.select_dtypes("number").to_numpy() == frame.select_dtypes("number").to_numpy()).all()


def test_names_of_folders_are_no_formulas_in_any_figure():
    import pandas as pd

    images, name = np.zeros((2, 8, 8, 3), np.uint8), NAMES[0]
    run = {"held_out": name, "method": "HYPO", "value": 50.0, "origins": ()}
    pair = {"class": name, "pair": f"{name} – b", "sinkhorn": 0.5}
    by_epoch = {"method": "HYPO", "epoch": 1.0, "epochs": 1.0, "value": 50.0, "origins": ()}
    for figure in (
        captioned(images, [name] * 2, [name] * 2, "mistakes", name, pd.DataFrame({"class": [name]})),
        contact_sheet(images[None], [name], [name, "b"], name),
        dots(pd.DataFrame([run]), "method", name, "by-domain"),
        heatmaps({"hypo": pd.DataFrame([pair])}, "PACS"),
        learning_curves(pd.DataFrame([by_epoch]), name, "curves"),
        problem(np.concatenate([images, images]), [name, *"bcd"], name),
    ):
        assert "base64" in figure._repr_html_()
    drawn = Text(0, 0, plain(name))
    assert drawn._preprocess_math(drawn.get_text()) == (name, False)


# Messages


def test_the_record_of_a_folder_is_verified_where_the_folder_is_and_refused_in_a_sentence_elsewhere(tmp_path, capsys):
    folder = folder_of(tmp_path / "my @images")
    torch.save(hypo.HypoNet(width=0.125).backbone.state_dict(), tmp_path / "own.pth")
    record = hypo.run(folder, "erm", "street", weights=str(tmp_path / "own.pth"), **QUICK)
    typed = ["verify", records.name_of(record["identity"])]
    assert cli.main(typed) == 0 and "agrees: the same to the last bit" in capsys.readouterr().out

    def refused(*more: str) -> str:
        assert cli.main([*typed, *more]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    stored = (tmp_path / "records" / f"{typed[1]}.npz").rename(tmp_path / "stored.npz")
    (tmp_path / "records" / f"{typed[1]}.npz").write_bytes(b"garbage")
    assert f"{typed[1]}.npz is not the file that" in refused()
    stored.replace(tmp_path / "records" / f"{typed[1]}.npz")
    (tmp_path / "own.pth").rename(tmp_path / "moved.pth")
    assert "own.pth, the weights of this record, is not at" in refused()
    torch.save({}, tmp_path / "other.pth")
    assert "is another file: restore it" in refused("--weights", str(tmp_path / "other.pth"))
    moved = ["--weights", str(tmp_path / "moved.pth"), "--benchmark", str(folder.rename(tmp_path / "elsewhere"))]
    assert "my @images, the benchmark of this record, is not at" in refused(*moved[:2])
    assert cli.main([*typed, *moved]) == 0 and "agrees" in capsys.readouterr().out
    image = next((tmp_path / "elsewhere").glob("*/*/*.png"))
    Image.new("L", (16, 16), 77).save(image)
    assert f"was made on version {record['data']} of the data, and here is" in refused(*moved)
    typed[1] = str(records.write(a_record("digits", scale="demo"), None, tmp_path / "others"))
    assert "is of digits: leave --benchmark out" in refused("--benchmark", "mine")


def test_a_run_that_diverges_says_so_and_a_sweep_goes_on(tmp_path, capsys):
    folder_of(tmp_path / "mine")
    grid = [*words(benchmark="mine", held_out="street", **QUICK | {"epochs": 3}), "--lr", "1e8,0.01"]
    assert cli.main(["sweep", *grid]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "lr=1e8: failed: training failed at step" in first and "lower lr, now 1e+08" in first
    assert "normalise" not in first and "lr=0.01: validation" in second


def test_a_network_that_takes_one_size_only_says_so(tmp_path, capsys):
    folder_of(tmp_path / "mine")
    given = QUICK | {"epochs": 1, "backbone": "vit_b_32", "width": 1.0}
    assert cli.main(["train", *words(benchmark="mine", held_out="street", **given)]) == 2
    assert "vit_b_32 takes no images of" in capsys.readouterr().err


def test_a_network_that_no_memory_holds_is_one_sentence(tmp_path, capsys):
    folder_of(tmp_path / "mine", per_class=2)
    assert cli.main(["train", *words(benchmark="mine", held_out="street", **QUICK | {"width": 1e9})]) == 2
    said = capsys.readouterr().err
    assert said.startswith("hypo: there is not enough memory for this run") and said.count("\n") == 1


def test_a_run_of_few_images_that_is_not_at_the_defaults_has_a_page_too(tmp_path):
    import pandas as pd

    run = runs.of(hypo.run(folder_of(tmp_path / "mine"), "erm", "street", **QUICK))
    found = geometry.stored(run)
    values = geometry.neighbourhoods(geometry.samples(run, found), found.z)
    assert np.isnan(values[geometry.ALIKE, "training domains"]) and np.isfinite(values[geometry.ALIKE, "all domains"])
    assert "too few test images" in geometry.in_words(pd.DataFrame({"HYPO": values, "ERM": values}))
    assert sensitivity.valley_example(runs.load(), run)["path"] == run["path"]


@pytest.mark.usefixtures("never")
def test_a_page_whose_data_is_too_small_or_incomplete_says_so_in_one_sentence(tmp_path):
    folder_of(tmp_path / "mine", per_class=2)
    page = begin({"benchmark": "mine", "held_out": "street", "scale": "demo"}, "pacs")
    with pytest.raises(ParameterError, match="training images are fewer than one batch of 64; lower batch_size"):
        page.run()
    folder_of(tmp_path / "data" / "PACS", PACS, [f"class{i}" for i in range(7)], per_class=2)
    with pytest.raises(ParameterError, match="pacs is incomplete: art_painting"):
        begin({"held_out": "photo", "scale": "cpu", "weights": None}, "pacs").run()


@pytest.mark.parametrize(
    "grid, sentence",
    [
        (["--seed", "0,x"], "seed must be a whole number, not 'x'"),
        (["--held-out", "each", "--temperature", "0.1,-1"], "temperature must be above 0"),
        (["--algorithm", "hypo,hipo"], "did you mean hypo?"),
        (["--held-out", "street,streat"], "unknown held_out domain of mine 'streat': did you mean street?"),
        (
            ["--benchmark", "mine,pacs", "--held-out", "each", "--held-out", "street"],
            "held_out domain of pacs 'street'",
        ),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--benchmark", "mine,digits", "--held-out", "each"], "digits is 32 pixels wide, not 16"),
    ],
)
@pytest.mark.usefixtures("never")
def test_a_mistake_in_a_sweep_is_found_before_its_first_run(tmp_path, capsys, grid, sentence):
    folder_of(tmp_path / "mine", per_class=2)
    assert cli.main(["sweep", *words(benchmark="mine", held_out="street", **QUICK), *grid]) == 2
    assert sentence in capsys.readouterr().err


def test_the_command_of_a_run_on_a_folder_can_be_typed_once_its_path_is_filled_in(tmp_path):
    folder_of(tmp_path / "my images", ("in doors", "street"))
    run = runs.of(hypo.run(tmp_path / "my images", "erm", "in doors", **QUICK))
    said = without_embeddings(run)
    assert "--benchmark 'path/to/my images' --algorithm erm --held-out 'in doors' --scale demo --seed 0" in said
    for name in ("epochs", "batch_size", "size", "width", "dim", "evaluations"):
        assert f"--{name.replace('_', '-')} {QUICK[name]}" in said
    assert text.command({"benchmark": "pacs", "algorithm": "erm", "held_out": "", "scale": "cpu", "seed": 1}) == (
        "hypo train --benchmark pacs --algorithm erm --held-out none --scale cpu --seed 1"
    )


def test_names_that_differ_in_case_only_are_noted(tmp_path):
    assert scan(folder_of(tmp_path / "mine", ("in doors", "Indoors"), ("bike", "Bi ke", "cat"))).notes == (
        "Indoors, in doors differ in case or spaces only and count apart",
        "Bi ke, bike differ in case or spaces only and count apart",
    )


def test_a_run_that_failed_or_was_refused_leaves_no_folder(tmp_path):
    folder = folder_of(tmp_path / "mine")
    for given in ({"lr": 1e8, "epochs": 3}, {"precision": "bfloat16"}, {"batch_size": 1000}, {}):
        with contextlib.suppress(ValueError):
            hypo.run(folder, "erm", "street", **QUICK | given)
    assert [*(tmp_path / "runs").iterdir()] == []


def test_notes_are_printed_by_train_and_doctor_says_what_is_unsound(tmp_path, capsys):
    folder = folder_of(tmp_path / "mine", classes=("cat", "dog"))
    (folder / "street" / "dog" / "broken.png").write_bytes(b"")
    assert cli.main(["train", *words(benchmark="mine", held_out="street", algorithm="erm", **QUICK)]) == 0
    assert "1 unreadable image skipped: street/dog/broken.png" in capsys.readouterr().err
    assert cli.main(["doctor", "mine"]) == 1
    out = capsys.readouterr().out
    assert "mine is not sound, see above" in out and "no benchmark on disk" not in out


@pytest.mark.parametrize("prototypes", ["ema", "learnable"])
@pytest.mark.parametrize("convert", ["half", "bfloat16", "float", "double"])
def test_a_criterion_in_half_precision_keeps_its_prototypes_in_full(prototypes, convert):
    criterion = getattr(torch.nn.Sequential(HypoLoss(4, 8, prototypes=prototypes)), convert)()[0]
    assert criterion.prototypes.dtype == (torch.float64 if convert == "double" else torch.float32)
    z = torch.nn.functional.normalize(torch.randn(16, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    z = z.to({"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}.get(convert, torch.float32))
    assert criterion(z, torch.arange(16) % 4).total.isfinite()


def test_a_damaged_number_in_a_pickle_takes_no_memory(tmp_path):
    """The compiled unpickler makes a table of twice as many places as the number of a thing: fuzzing found it."""
    numbered = b"\x80\x03]r" + (2**26).to_bytes(4, "little") + b"."  # an empty list, kept under a number
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*cifar.BATCHES["train"], *cifar.BATCHES["test"]):
        (folder / name).write_bytes(numbered)
    tracemalloc.start()
    with pytest.raises(ValueError, match="cannot be read"):
        cifar.cifar10(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
