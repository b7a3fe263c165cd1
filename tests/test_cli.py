"""The command line: what it prints, its exit codes, and that mistakes are one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made import run
from PIL import Image

from hypo import cli
from hypo.data import doctor
from hypo.data.benchmarks import REGISTRY


def lay_out(root: Path, name: str, folder: str) -> Path:
    """A benchmark with every image it should have, each one pixel."""
    spec = REGISTRY[name]
    for domain, per_class in spec.class_counts.items():
        for c, n in enumerate(per_class):
            (root / folder / domain / f"class{c}").mkdir(parents=True)
            for i in range(n):
                (root / folder / domain / f"class{c}" / f"{i}.png").symlink_to(root / "one.png")
    Image.new("RGB", (1, 1)).save(root / "one.png")
    return root / folder


@pytest.fixture
def folder(tmp_path) -> Path:
    for domain in ("indoors", "outdoors"):
        for label in ("cat", "dog"):
            (tmp_path / "mine" / domain / label).mkdir(parents=True)
            Image.effect_noise((16, 16), 50).save(tmp_path / "mine" / domain / label / "0.jpg")
    return tmp_path / "mine"


def test_data_lists_every_benchmark_within_100_columns(tmp_path, capsys):
    assert cli.main(["data", "--root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 100
    shown = {line.split()[0]: line for line in lines if line and not line.startswith(" ")}
    for name, spec in REGISTRY.items():
        assert str(spec.num_classes) in shown[name] and spec.total in shown[name]
        assert shown[name].endswith("built in" if name == "digits" else "no")
    text = " ".join(" ".join(lines).split())
    assert all(domain.split(" x ")[0].split()[0] in text for spec in REGISTRY.values() for domain in spec.domains)


def test_data_shows_what_is_present_and_fetches_it_no_more(tmp_path, capsys):
    for domain in REGISTRY["pacs"].domains:
        (tmp_path / "PACS" / domain).mkdir(parents=True)
    cli.main(["data", "--root", str(tmp_path)])
    assert next(line for line in capsys.readouterr().out.splitlines() if line.startswith("pacs")).endswith("yes")
    assert cli.main(["data", "pacs", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"pacs is already at {tmp_path / 'PACS'}\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ["dctor"],
            "unknown command 'dctor': did you mean doctor? valid are data, doctor, train, sweep",
        ),
        (["data", "paks"], "unknown benchmark 'paks': did you mean pacs?"),
        (["doctor", "ofice_home"], "unknown benchmark 'ofice_home': did you mean office_home?"),
        (["doctor", "no/such/folder"], "no/such/folder is not a folder"),
        (["data", "imagenet100"], "run `hypo data imagenet100 --from PATH`"),
        (["data", "pacs", "--from", "x"], "leave --from out"),
        (["data", "--from", "x"], "--from needs a benchmark"),
        (["data", "--rooot"], "unknown argument of `hypo data` '--rooot': did you mean --root?"),
        (["verify", "*"], "unknown record '*'"),
        (["evidence", "main_tabel"], "unknown table, figure or heading 'main_tabel': did you mean main_table?"),
        (["evidence", "table44"], "did you mean table4?"),
        (["evidence", "main_table", "--scale", "demo"], "--scale is for tables and figures of the paper"),
        (["evidence", "main_table", "table4"], "main_table is a heading of the book's runs and not all other"),
        (["algorithms", "gvrt"], "gvrt cannot be trained: it needs a text for each image; valid are erm,"),
        (["algorithms", "swad"], "swad cannot be trained: it is a rule of selection"),
        ([], "command"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_2(argv, says, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_DATA", str(tmp_path))
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1 and err.startswith("hypo: ")


def test_ctrl_c_is_quiet_and_exits_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "data", cli.COMMANDS["data"]._replace(run=interrupted))
    assert cli.main(["data"]) == 130
    assert capsys.readouterr() == ("", "")


def test_doctor_finds_a_sound_folder_sound(folder, tmp_path, capsys):
    assert cli.main(["doctor", str(folder), "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "4 images: indoors 2, outdoors 2; sound" in out
    assert all(
        f"\n{row} " in out for row in ("python", "torch", "device", "cores", "memory", "free disk", "scale paper")
    )


def test_doctor_names_broken_images_and_exits_1(folder, tmp_path, capsys):
    whole = (folder / "indoors" / "cat" / "0.jpg").read_bytes()
    (folder / "indoors" / "cat" / "0.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "outdoors" / "dog" / "1.png").write_bytes(b"not an image")
    (folder / "outdoors" / "dog" / "2.png").symlink_to("nowhere")
    assert cli.main(["doctor", str(folder), "--root", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    named = {line.split()[0] for line in out.splitlines() if "cannot be opened" in line}
    assert named == {"indoors/cat/0.jpg", "outdoors/dog/1.png", "outdoors/dog/2.png"}


def test_doctor_compares_counts_per_domain_and_class_with_the_published_ones(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_broken", lambda _: [])
    pacs = lay_out(tmp_path, "pacs", "PACS")
    assert cli.main(["doctor", "pacs", "--root", str(tmp_path)]) == 0
    assert (
        "pacs: 9,991 images: art_painting 2,048, cartoon 2,344, photo 1,670, sketch 3,929; sound"
        in capsys.readouterr().out
    )
    (pacs / "sketch" / "class5" / "0.png").unlink()
    assert cli.main(["doctor", "pacs", "--root", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "sketch/class5 has 79 images instead of the published 80" in out
    assert "sketch has 3,928 images instead of the published 3,929" in out


def test_doctor_of_an_absent_benchmark_says_how_to_get_it(tmp_path, capsys):
    assert cli.main(["doctor", "vlcs", "--root", str(tmp_path)]) == 1
    assert "run `hypo data vlcs`" in capsys.readouterr().out


def test_scales_follow_from_what_is_sound_and_a_gpu():
    def runs(sound: list[str], gpu: bool) -> list[str]:
        return [scale for scale, verdict in doctor.scales(sound, gpu).items() if verdict.startswith("yes")]

    assert runs(["digits", "cifar10c"], gpu=True) == ["demo"]
    assert runs(["digits", "pacs"], gpu=False) == ["demo", "cpu"]
    assert runs(["digits", "pacs"], gpu=True) == ["demo", "cpu", "paper"]


def test_python_m_hypo_is_the_command_and_a_closed_pipe_is_quiet(tmp_path):
    command = [sys.executable, "-m", "hypo", "data", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("benchmark") and done.stderr == ""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


def test_help_needs_neither_torch_nor_numpy():
    code = "import sys, hypo.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_page_that_trains_nothing_does_without_torchvision():
    """It takes longer to import than torch, and most of the pages only read records."""
    code = "import sys, hypo.display, hypo.notebook.cells, hypo.report.claims; sys.exit('torchvision' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_asleep_unless_the_user_says_otherwise(given, found):
    """OpenMP reads the variable when torch is loaded, so hypo sets it before and loads no torch itself."""
    code = "import sys, os, hypo; assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    others = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment = others | ({} if given is None else {"OMP_WAIT_POLICY": given})
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_sweep_makes_every_combination_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("HYPO_RUNS", str(tmp_path / "runs"))
    grid = ["sweep", "--benchmark", "digits", "--seed", "0,1", "--held-out", "photo", "--algorithm", "erm"]
    small = ["--epochs", "1", "--width", "0.05", "--batch-size", "512"]
    assert cli.main([*grid, *small]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1/2 seed=0", "2/2 seed=1"]
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").glob("*.json")}
    assert len(made) == 2
    assert cli.main([*grid, *small]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "records").glob("*.json")} == made


def test_sweep_says_which_runs_failed_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("HYPO_RUNS", str(tmp_path / "runs"))
    grid = ["sweep", "--benchmark", "digits", "--held-out", "photo", "--algorithm", "erm", "--epochs", "1"]
    assert cli.main([*grid, "--width", "0.05", "--batch-size", "100000,512"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "batch_size=100000: failed: " in first and "batch_size=512: validation" in second


def test_table_shows_every_setting_when_asked_to(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    run(tmp_path)
    run(tmp_path, settings={"temperature": 0.5})
    for options, shown in (([], False), (["--all"], True)):
        assert cli.main(["table", "pacs", *options]) == 0
        assert ("temperature=0.5" in capsys.readouterr().out) == shown


def test_the_start_of_several_records_is_refused_with_some_of_their_names(capsys):
    assert cli.main(["verify", "digits-cartoon-hypo"]) != 0
    assert "records, such as digits-cartoon-hypo-demo-s0-" in capsys.readouterr().err


def test_every_record_that_the_book_says_to_verify_is_there():
    top = Path(__file__).resolve().parents[1]
    text = "".join((top / name).read_text() for name in ("README.md", "book/reproduce.md"))
    lines = [line.split() for line in text.splitlines()]
    names = [words[2] for words in lines if words[:2] == ["hypo", "verify"] and words[2] != "#"]
    assert names and all((top / "data/records" / f"{name}.json").exists() for name in names)
