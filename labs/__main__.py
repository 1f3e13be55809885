"""`python -m labs`: what labs there are, whether their numbers still hold, and new reference records.

python -m labs
python -m labs run trace_pretrain_step
python -m labs run --all --check --report out/labs
python -m labs record trace_pretrain_step
"""

import importlib
import io
import pkgutil
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from jsonargparse import ArgumentParser

import labs
from labs.lab import is_lab, load_reference, reference_path
from labs.report import Outcome, report_path, write_report
from minimind.trace import Record

SHOWN_DIFFERENCES = 20


def find_labs() -> dict[str, ModuleType]:
    """Every lab of the package by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(labs.__path__) if module.name != "__main__")
    modules = {name: importlib.import_module(f"labs.{name}") for name in names}
    return {name: module for name, module in modules.items() if is_lab(module)}


def choose_labs(names: Iterable[str]) -> dict[str, ModuleType]:
    """The labs of these names, each once, in the order given.

    Raises:
        ValueError: there is no lab of such a name; the message lists those that exist.
    """
    there = find_labs()
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"there is no lab {unknown[0]!r}; choose from {', '.join(there)}.")
    return {name: there[name] for name in names}


def list_labs() -> None:
    """Prints each lab's name, its question, and how to run it."""
    for name, module in find_labs().items():
        print(f"{name}\n    {module.QUESTION}\n    python -m labs.{name} --help")


def run_lab(name: str, module: ModuleType, draw: bool = False) -> Outcome:
    """Runs one lab with its default arguments, and compares it with its reference.

    Args:
        name: of the lab.
        module: the lab.
        draw: also draw its figure, for a report.

    Returns:
        What came of it. A lab that raises is an outcome too, so that the labs after it still run.
    """
    outcome = Outcome(name, module.QUESTION)
    begun_s = time.perf_counter()
    try:
        outcome.record = record = module.run()
        outcome.time_s = time.perf_counter() - begun_s
        if draw:
            png = io.BytesIO()
            # The library would sign the picture with an address and its version.
            module.draw(record).savefig(png, format="png", dpi=130, metadata={"Software": None})
            outcome.figure_png = png.getvalue()
            outcome.figure_text = (module.draw.__doc__ or f"The figure of {name}.").split("\n\n")[0].strip()
    except Exception as error:
        outcome.time_s = outcome.time_s or time.perf_counter() - begun_s
        outcome.error = f"{error}"
        if not isinstance(error, ValueError | OSError):  # not written for people, so its place is shown as well
            outcome.error = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        return outcome
    try:
        outcome.reference = load_reference(name)
        outcome.differences = record.compare(outcome.reference)
    except ValueError as error:
        outcome.no_reference = f"{error}"
    return outcome


def run_labs(names: Sequence[str], everything: bool, check: bool, report: str) -> int:
    """Runs labs one after another and prints a line for each.

    Args:
        names: the labs to run.
        everything: run all there are instead.
        check: whether a difference from the reference, or a missing reference, counts as a failure.
        report: folder for an HTML page of the results; empty writes none.

    Returns:
        The exit status: 1 when a lab failed.

    Raises:
        ValueError: no lab or an unknown one is named, or the report cannot stand where it is asked for.
    """
    if bool(names) == everything:
        raise ValueError(f"name the labs to run, or give --all; there are {', '.join(find_labs())}.")
    chosen = find_labs() if everything else choose_labs(names)
    path = report_path(report) if report else None  # before minutes are spent on labs
    width = max(len(name) for name in chosen)
    outcomes = []
    for name, module in chosen.items():
        outcome = run_lab(name, module, draw=path is not None)
        print(f"{name:{width}}  {outcome.time_s:6.1f} s  {outcome.verdict}", flush=True)
        outcomes.append(outcome)
    if path is not None:
        write_report(outcomes, path)
        print(f"report in {path}")
    return int(any(outcome.failed(check) for outcome in outcomes))


def record_lab(name: str) -> None:
    """Runs a lab with its default arguments and makes the result its reference record.

    Raises:
        ValueError: there is no such lab, or the lab or the reference so far is at fault.
    """
    record: Record = choose_labs([name])[name].run()
    path = reference_path(name)
    changes = []
    if path.is_file():
        try:
            before = load_reference(name)
        except ValueError as error:
            raise ValueError(f"{error}; delete that file to record anew, without the bands it may hold.") from error
        record.bands = {**before.bands, **record.bands}  # an author's widened tolerances outlive a new recording
        changes = record.compare(before)
    record.save(path)
    print(f"{name} is recorded in {Path('labs', 'records', path.name)}")
    if changes:
        print(f"{len(changes)} fields differ from the reference before:")
        print("\n".join(f"  {change}" for change in changes[:SHOWN_DIFFERENCES]))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status. An error for a person is one sentence and status 1."""
    arguments = _parser().parse_args(argv).as_dict()
    command = arguments["subcommand"]
    given = arguments.get(command, {}) if command else {}
    try:
        if command == "run":
            return run_labs(given["labs"] or [], given["all"], given["check"], given["report"])
        if command == "record":
            record_lab(given["lab"])
        else:
            list_labs()
    except (ValueError, RuntimeError, OSError) as error:
        print(f"labs: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m labs", description="Lists the labs; with a command, runs or records them.")
    commands = parser.add_subcommands(required=False)

    run = ArgumentParser(
        prog="python -m labs run",
        usage="python -m labs run [LAB ... | --all] [options]",
        description="Runs labs with their default arguments and compares them with their reference records.",
    )
    run.add_argument("labs", nargs="*", type=str, default=[], help="names of labs")
    run.add_argument("--all", action="store_true", help="run every lab there is")
    run.add_argument("--check", action="store_true", help="count a difference from the reference as a failure")
    run.add_argument("--report", type=str, default="", help="write index.html, a page of the results, into this folder")
    commands.add_subcommand("run", run, help="run labs and compare them with their reference records")

    record = ArgumentParser(
        prog="python -m labs record",
        usage="python -m labs record LAB",
        description="Runs a lab with its default arguments and makes the result its reference record.",
    )
    record.add_argument("lab", type=str, help="name of the lab")
    commands.add_subcommand("record", record, help="make a lab's reference record")
    return parser


if __name__ == "__main__":
    sys.exit(main())
