"""The command `hypo`. Each sub-command is one entry of COMMANDS; heavy imports wait until one runs."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from hypo.suggest import one_of, sentence

WIDTHS = (15, 21, 7, 10, 25, 12)  # of the columns of `hypo data`: 100 with two spaces between them
SHOWN = 10  # problems `hypo doctor` prints per benchmark; the rest are counted


class Command(NamedTuple):
    """A sub-command: a line of help, what adds its arguments to a parser, and what runs it to an exit code."""

    summary: str
    configure: Callable[[argparse.ArgumentParser, Sequence[str]], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hypo ARGV`; 0 when it went well, 1 when `doctor` found something broken, 2 for a mistake, 130 for Ctrl-C."""
    try:
        args, unknown = _parser(sys.argv[1:] if argv is None else argv).parse_known_args(argv)
        if unknown:
            one_of(f"argument of `hypo {args.command}`", unknown[0].partition("=")[0], args.options)
        code = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"hypo: {sentence(error)}", file=sys.stderr)
        return 2
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
        print("hypo: there is not enough memory; end other programs, or use a machine with more", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """argparse with one-sentence errors that name the nearest valid choice."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see `{self.prog} --help`)")

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None:
            one_of(action.dest, value, action.choices)


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Only the sub-command that is asked for gets its arguments: those of training need torch."""
    parser = _Parser(prog="hypo", description="Re-derive the tables and figures of the HYPO paper.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.summary, description=command.summary, allow_abbrev=False)
        if name in argv[:1]:
            command.configure(sub, argv)
        sub.set_defaults(run=command.run, options=[option for a in sub._actions for option in a.option_strings])
    return parser


def _configure_data(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument("benchmark", nargs="?", help="fetch this one and lay it out; without it, list them all")
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")
    parser.add_argument(
        "--from", dest="source", metavar="PATH", help="your ImageNet folder, for imagenet100, or ImageNet-C's"
    )


def _data(args: argparse.Namespace) -> int:
    if args.benchmark is not None:
        from hypo.data.prepare import prepare

        print(prepare(args.benchmark, args.root, args.source))
        return 0
    from hypo.data.benchmarks import REGISTRY, data_root

    if args.source is not None:
        raise ValueError("--from needs a benchmark: `hypo data imagenet100 --from PATH`")
    rows = [("benchmark", "domains", "classes", "images", "licence", "present")]
    for name, spec in REGISTRY.items():
        domains = ", ".join(spec.domains)
        rows.append((name, domains, str(spec.num_classes), spec.total, spec.licence, _presence(name, args.root)))
    for row in rows:
        print(_cells(row))
    print(f"\nroot: {data_root(args.root)}; fetch one with `hypo data NAME`, verify with `hypo doctor`")
    return 0


def _presence(name: str, root: str | None) -> str:
    from hypo.data.benchmarks import CORRUPTED, locate

    if name == "digits":
        return "built in"
    if locate(name, root):
        return "yes"
    return "generated" if name in CORRUPTED and locate(CORRUPTED[name], root) else "no"


def _cells(row: Sequence[str]) -> str:
    """One row of the table, each cell wrapped to its column's width."""
    columns = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, WIDTHS, strict=True)]
    height = max(map(len, columns))
    lines = zip(*(column + [""] * (height - len(column)) for column in columns), strict=True)
    return "\n".join("  ".join(map(str.ljust, line, WIDTHS)).rstrip() for line in lines)


def _configure_doctor(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument(
        "benchmark", nargs="*", help="names or folders to verify (default: every benchmark that is present)"
    )
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")


def _doctor(args: argparse.Namespace) -> int:
    from hypo.data.benchmarks import REGISTRY, own_folder
    from hypo.data.doctor import examine, machine, scales

    for name in args.benchmark:
        if name not in REGISTRY:
            own_folder(name)
    sound, unsound = [], []
    for name in args.benchmark or REGISTRY:
        presence = _presence(name, args.root) if name in REGISTRY else "yes"
        if not args.benchmark and presence in ("no", "generated"):
            print(f"{name}: " + ("absent, generated when needed" if presence == "generated" else "absent"))
            continue
        finding = examine(name, args.root)
        print(f"{name}: {finding.summary}; {'NOT sound:' if finding.problems else 'sound'}")
        for problem in finding.problems[:SHOWN]:
            print(f"  {problem}")
        if len(finding.problems) > SHOWN:
            print(f"  and {len(finding.problems) - SHOWN:,} more")
        (unsound if finding.problems else sound).append(name)
    about = machine(args.root)
    verdicts = scales(sound, about["device"] != "CPU only", unsound)
    about |= {f"scale {name}": verdict for name, verdict in verdicts.items()}
    print("\n" + "\n".join(f"{key:<12} {value}" for key, value in about.items()))
    return int(bool(unsound))


def _configure_train(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    from hypo.algorithms import ALGORITHMS
    from hypo.config import GENERAL, MAIN, settings

    parser.add_argument("--benchmark", default="pacs", help="a name of `hypo data`, or a folder (default: pacs)")
    parser.add_argument("--algorithm", default="hypo", help="the method (default: hypo)")
    parser.add_argument("--held-out", default="cartoon", help="the domain never trained on, or none (default: cartoon)")
    parser.add_argument("--scale", help="demo, cpu or paper (default: the largest this machine is ready for)")
    parser.add_argument("--seed", default="0", help=GENERAL["seed"].metadata["help"] + " (default: 0)")
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")
    parser.add_argument("--force", action="store_true", help="train anew even if this run is recorded")
    asked, _ = parser.parse_known_args([word for word in argv[1:] if word not in ("-h", "--help")])
    names = [name for name in asked.algorithm.split(",") if name in ALGORITHMS] or ["hypo"]
    fields = parser.add_argument_group("settings of every method, each with a default of its scale")
    for name, field in GENERAL.items():
        if name not in MAIN:
            _add_setting(fields, field)
    own = {name: field for method in names for name, field in settings(method).items() if name not in GENERAL}
    fields = parser.add_argument_group(f"settings of {', '.join(names)}")
    for field in own.values():
        _add_setting(fields, field)


def _add_setting(group: argparse._ArgumentGroup, field: dataclasses.Field) -> None:
    kind = str(getattr(field.type, "__name__", field.type)).upper()
    text = field.metadata["help"].replace("%", "%%")
    group.add_argument(f"--{field.name.replace('_', '-')}", metavar=kind, default=argparse.SUPPRESS, help=text)


OWN = ("command", "run", "options", "root", "force", "jobs")
"""What `hypo train` takes and what is no setting of a run."""


def _train(args: argparse.Namespace) -> int:
    from hypo import runs
    from hypo.report.run import card
    from hypo.training.engine import run
    from hypo.training.launch import process_group

    given = {name: value for name, value in vars(args).items() if name not in OWN}
    given["held_out"] = _held_out(args.benchmark, args.held_out)
    with process_group() as leads:
        record = run(**given, force=args.force, root=args.root)
        if leads:
            print(card(runs.row(record)))
    return 0


def _held_out(benchmark: str, word: str) -> str | None:
    """The domain that `--held-out` names; "none" is no domain, unless the reader's folder has one of that name."""
    from hypo.data.benchmarks import REGISTRY
    from hypo.files import expanded

    own = benchmark not in REGISTRY and (expanded(benchmark) / word).is_dir()
    return word if own or word != "none" else None


def _configure_sweep(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    _configure_train(parser, argv)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, with Snakemake installed (default: 1)")
    parser.epilog = "Every option takes several values: --seed 0,1,2 --held-out each --temperature 0.05,0.1"


def _sweep(args: argparse.Namespace) -> int:
    """Every combination of the values given; a run that is recorded is not made again."""
    from itertools import product

    from hypo.config import configure
    from hypo.data.benchmarks import REGISTRY, listed, own_folder, refuse_size
    from hypo.training import evidence
    from hypo.training.engine import choose_scale, recorded, run, settled
    from hypo.training.trainer import TrainingError

    jobs = _at_least_one(args.jobs)
    given = {name: str(value).split(",") for name, value in vars(args).items() if name not in OWN and value is not None}
    domains = {
        name: REGISTRY[name].domains if name in REGISTRY else listed(own_folder(name)).domain_names
        for name in (*given["benchmark"], "digits")
    }
    grid = []
    for values in product(*given.values()):
        point = dict(zip(given, values, strict=True))
        own = domains[point["benchmark"]]
        each = point["held_out"] == "each" and "each" not in own
        grid += [point | {"held_out": domain} for domain in (own if each else [point["held_out"]])]
    for point in grid:  # a mistake in the last one is found before the first is run
        config = configure(**{"scale": choose_scale(point["benchmark"], args.root)} | point)
        data = "digits" if config.scale == "demo" and config.benchmark in REGISTRY else config.benchmark
        if len(valid := domains[data]) > 1:
            one_of(f"held_out domain of {config.benchmark}", config.held_out, [*valid, "none"])
        refuse_size(data, config.size)
    several = [name for name in grid[0] if len({point[name] for point in grid}) > 1]
    grid = [point | {"held_out": _held_out(point["benchmark"], point["held_out"])} for point in grid]
    by_workflow = evidence.snakefile() is not None and not args.force
    if by_workflow:
        grid = [settled(point, args.root) for point in grid]
        evidence.sweep(jobs, grid, args.root)
    failed = 0
    for at, point in enumerate(grid, 1):
        changed = " ".join(f"{name}={point[name]}" for name in several)
        try:
            if by_workflow and not recorded(configure(**point), args.root):
                raise TrainingError("its log says why")
            measures = run(**point, force=args.force, root=args.root)["final"]["validation"]
            result = f"validation {measures['validation_accuracy']:.1%}, OOD {measures['ood_accuracy']:.1%}"
        except TrainingError as error:
            failed, result = failed + 1, f"failed: {error}"
        print(f"{at}/{len(grid)} {changed or point['algorithm']}: {result}", flush=True)
    return int(failed > 0)


def _at_least_one(jobs: int) -> int:
    if jobs < 1:
        raise ValueError(f"--jobs must be at least 1, not {jobs}")
    return jobs


def _configure_evidence(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    names = "headings of --list, such as main_table; or tables and figures of the paper, table4, or paper for all"
    parser.add_argument("name", nargs="*", help=names)
    parser.add_argument("--scale", help="of the paper's tables and figures: demo, cpu or paper (default: paper)")
    parser.add_argument("--list", action="store_true", help="show the plan and what is missing; run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each (default: 2)")
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")


def _evidence(args: argparse.Namespace) -> int:
    from hypo.config import SCALES
    from hypo.training import evidence

    path = evidence.plan_of(args.name)
    if args.scale is not None:
        one_of("scale", args.scale, SCALES)
        if path != evidence.paper_plan():
            raise ValueError("--scale is for tables and figures of the paper: name them, or `paper` for all of them")
    every = evidence.plan(path, args.root, args.name, args.scale)
    if args.list:
        print(evidence.listing(evidence.by_heading(every, path, args.name, args.scale)))
        return 0
    jobs = _at_least_one(args.jobs)
    if every and evidence.snakefile():  # without a target Snakemake would make all of the plan
        return evidence.by_workflow(jobs, path, args.root, dict.fromkeys(p.what for p in every), args.scale)
    return int(evidence.make(jobs, every, args.root) > 0)


def _configure_plan(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument("name", nargs="*", help="tables and figures of the paper, table4 or figure7a (default: all)")
    parser.add_argument("--scale", default="paper", help="demo, cpu or paper (default: paper)")
    parser.add_argument("--device", default="A100", help="a GPU whose speed is stated, for runs at paper scale")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")


def _plan(args: argparse.Namespace) -> int:
    from hypo.config import SCALES
    from hypo.report.plan import table
    from hypo.report.table import render

    one_of("scale", args.scale, SCALES)
    print(render(table(args.name, args.scale, args.device, _at_least_one(args.jobs), args.root)), end="")
    return 0


def _configure_verify(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument(
        "record",
        nargs="?",
        help="the file of a record, or the start of its name (default: HYPO on the digits, cartoon held out, seed 0)",
    )
    parser.add_argument("--keep", action="store_true", help="add the outcome to data/verified.json, for the book")
    parser.add_argument("--benchmark", help="where your own folder lies, of a record of it (default: its name, in .)")
    parser.add_argument("--weights", help="where your own weights file lies (default: its name, in .)")
    parser.add_argument("--root", help="where benchmarks lie (default: $HYPO_DATA, else data/ of the working copy)")


def _verify(args: argparse.Namespace) -> int:
    from glob import escape
    from pathlib import Path

    from hypo import records
    from hypo.config import configure, identity
    from hypo.training.verify import keep, verify

    given = args.record or records.name_of(identity(configure("digits", "hypo", "cartoon", "demo"), ""))
    path = Path(given)
    if not path.is_file():
        found = sorted(records.folder().glob(f"{escape(path.stem)}*.json"))
        if len(found) != 1:
            names = sorted(path.stem for path in records.folder().glob("*.json"))
            one_of("record", given, names) if not found else None
            some = ", ".join(path.stem for path in found[:3])
            raise ValueError(f"{given} is the start of {len(found)} records, such as {some}: give a whole name")
        path = found[0]
    print(path.name)
    verdict = verify(path, args.root, args.benchmark, args.weights)
    for name, (before, now) in verdict.measures.items():
        reach = f", may differ by {verdict.spread[name]:.4f}" if verdict.spread else ""
        print(f"{name.replace('_', ' '):<20} {before:.4f} recorded, {now:.4f} now{reach}")
    print(f"{'agrees' if verdict.agrees else 'does not agree'}: {verdict.sentence}")
    if args.keep:
        print(f"kept in {keep(path, verdict).name}")
    return int(not verdict.agrees)


def _configure_algorithms(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument("name", nargs="?", help="explain this method; without it, list them all")


def _algorithms(args: argparse.Namespace) -> int:
    from hypo.report.methods import explanation, listing

    print(listing() if args.name is None else explanation(args.name))
    return 0


def _configure_table(parser: argparse.ArgumentParser, _argv: Sequence[str]) -> None:
    parser.add_argument("name", help="a benchmark, or the number of one of the paper's tables")
    parser.add_argument(
        "--all",
        action="store_true",
        help="of a benchmark: every setting that was run (without it: the defaults of each scale, and the paper's "
        "constant temperature; of your own folder always every one)",
    )


def _table(args: argparse.Namespace) -> int:
    from hypo.report.named import named
    from hypo.report.table import render

    print(render(named(args.name, every=args.all)), end="")
    return 0


COMMANDS: dict[str, Command] = {
    "data": Command("list the benchmarks, or fetch one and lay it out", _configure_data, _data),
    "doctor": Command("verify the benchmarks on disk and what this machine is ready for", _configure_doctor, _doctor),
    "train": Command("make a run and record it, or show the record if it was made before", _configure_train, _train),
    "sweep": Command("make every run of a grid of settings", _configure_sweep, _sweep),
    "evidence": Command("make the runs behind the book that are missing", _configure_evidence, _evidence),
    "plan": Command("what the runs behind the paper's tables and figures take", _configure_plan, _plan),
    "verify": Command("run a record's configuration again and say whether it agrees", _configure_verify, _verify),
    "algorithms": Command("list the methods, or explain one", _configure_algorithms, _algorithms),
    "table": Command("the paper's table beside ours", _configure_table, _table),
}
