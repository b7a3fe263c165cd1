"""The project's own files agree with one another and with what the README promises."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import hypo

TOP = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
NAMED = {"torch", "torchvision", "jupyter-book", "matplotlib", "umap-learn", "pot", "papermill", "seaborn"}


def requirement(line: str) -> tuple[str, str, str]:
    name, operator, version = re.fullmatch(r"([\w-]+)(==|>=)(\S+)", line).groups()
    return name.lower().replace("_", "-"), operator, version


EXTRAS = [name for name in PROJECT["optional-dependencies"] if name != "workflow"]
"""What `make` installs."""


def required(*extras: str) -> list[tuple[str, str, str]]:
    groups = [PROJECT["optional-dependencies"][name] for name in extras]
    return [requirement(line) for group in groups for line in group]


def pinned(file: str = "constraints.txt") -> dict[str, str]:
    lines = [line for line in (TOP / file).read_text().splitlines() if not line.startswith("#")]
    return {name: version for name, operator, version in map(requirement, lines) if operator == "=="}


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def test_every_requirement_is_pinned_within_its_bound():
    usual = [*map(requirement, PROJECT["dependencies"]), *required(*EXTRAS)]
    assert {name for name, _, _ in usual} >= NAMED
    both = [(each, "constraints.txt") for each in usual]
    both += [(each, "workflow/constraints.txt") for each in required("workflow")]
    for (name, operator, version), file in both:
        pins = pinned(file)
        assert name in pins, f"{name} is in pyproject.toml but not in {file}"
        assert pins[name] == version if operator == "==" else numbers(pins[name]) >= numbers(version)


def test_conda_takes_the_same_packages_and_versions():
    environment = yaml.safe_load((TOP / "environment.yml").read_text())["dependencies"]
    assert f"python={PROJECT['requires-python'].removeprefix('>=')}" in environment
    extras = ",".join(EXTRAS)
    assert environment[-1] == {"pip": ["--constraint constraints.txt", f"--editable .[{extras}]"]}
    assert f"-c constraints.txt -e '.[{extras}]'" in (TOP / "Makefile").read_text()


def test_pre_commit_uses_the_pinned_tools():
    hooks = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    for hook in hooks:
        (dependency,) = hook["additional_dependencies"]
        name, _, version = requirement(dependency)
        assert pinned()[name] == version


def test_readme_opens_with_three_sentences_and_the_two_commands():
    readme = (TOP / "README.md").read_text()
    opening, block = re.match(r"# hypo\n\n(.*?)\n\n```sh\n(.*?)```", readme, re.DOTALL).groups()
    assert len(re.findall(r"\.(?=\s|$)", opening)) == 3
    assert [line.split("#")[0].strip() for line in block.strip().splitlines()] == ["make book", "make test"]


LAYERS = """
suggest contracts files
kernels sphere
distributed
loss model
geometry
algorithms
data
config
records
training
paper runs
claims
report
display
figures
notebook
cli
"""
"""hypo/ from the inside out; a part may import those of lines above its own, and those before it in its line."""
ORDER = LAYERS.split()
MODULES = sorted((TOP / "hypo").rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(TOP / "hypo").parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """The parts of hypo that a module imports, `from hypo import x` among them; not what is there for types only."""
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    ignored = {inner for outer in for_types for inner in ast.walk(outer)}
    found = set()
    for node in set(ast.walk(tree)) - ignored:
        if isinstance(node, ast.ImportFrom) and node.module == "hypo":
            public = {home for name, home in hypo._HOME.items() if name in {alias.name for alias in node.names}}
            found |= {alias.name for alias in node.names} - set(hypo._HOME) | {home.split(".")[0] for home in public}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hypo."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("hypo.")}
    return found


def test_the_list_of_layers_names_every_part_once():
    parts = {part_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert sorted(ORDER) == sorted(parts)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(TOP)))
def test_imports_point_inwards(path):
    part = part_of(path)
    if part in ("__init__", "__main__"):
        return
    for target in imported(ast.parse(path.read_text())) - {part}:
        assert target in ORDER, f"{path.name} imports hypo.{target}, which the list of layers does not name"
        assert ORDER.index(target) < ORDER.index(part), f"{path.name} imports hypo.{target}, which lies further out"


def test_the_test_sees_every_form_of_import():
    forms = "import hypo.cli\nfrom hypo import claims\nfrom hypo import run\nfrom hypo.report.text import number"
    assert imported(ast.parse(forms)) == {"cli", "claims", "training", "report"}


def test_contributing_shows_the_same_layers():
    text = (TOP / "CONTRIBUTING.md").read_text()
    shown = re.search(r"from the inside out.*?```\n(.*?)```", text, re.DOTALL).group(1)
    assert [line.split("  ")[0].split() for line in shown.splitlines()] == [
        line.split() for line in LAYERS.strip().splitlines()
    ]


def test_tracked_files_name_no_folder_of_a_machine():
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, tracked.stdout.split("\0")):
        path = TOP / name
        if name.startswith("tests/"):
            continue  # they write such folders on purpose
        if path.suffix in {".py", ".md", ".ipynb", ".yml", ".toml", ".json", ".txt", ".csv"} and path.exists():
            assert not re.search(r"(?<![\w.])/(work|root|home|Users)/", path.read_text()), name


def make(*arguments: str, path: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["/usr/bin/make", *arguments],
        cwd=path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((TOP / name).read_text())
    return tmp_path


@pytest.mark.skipif(not Path("/usr/bin/make").exists(), reason="no /usr/bin/make")
def test_a_python_that_is_too_old_gets_one_sentence(checkout, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16))):
        (tools / name).write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
        (tools / name).chmod(0o755)
    result = make("test", path=checkout, PATH=f"{tools}:/usr/bin:/bin")
    said = [line for line in result.stderr.splitlines() if not line.startswith("make")]
    assert result.returncode == 2
    assert len(said) == 1
    assert said[0].startswith("hypo needs Python 3.11 or newer and found Python 3.9.2; install it, or name yours:")
    assert not (checkout / ".venv").exists()
