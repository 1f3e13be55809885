"""`python -m course.build build|check|work|lab`: see `--help`."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from course.build.check import check
from course.build.execute import ROOT, build_lesson
from course.build.lab_server import LabError, lab_server
from course.build.sources import lesson_paths
from course.build.workfolder import lay_copies


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: The command line; `sys.argv` by default.
        root: The repository: lessons in `course/lessons`, notebooks in `notebooks`.
    """
    parsed = _parser().parse_args(arguments)
    lessons, notebooks = root / "course" / "lessons", root / "notebooks"
    work: Path = parsed.into if "into" in parsed and parsed.into else root / "work"
    try:
        match parsed.command:
            case "build":
                return _build(parsed.lessons, lessons, notebooks)
            case "check":
                return _check(lessons, notebooks)
            case "work":
                return _work(notebooks, work)
            case _:
                return _lab(notebooks, work, open_browser=not parsed.no_browser)
    except (ValueError, LabError) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m course.build", description="Build the course's notebooks.")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="read the lesson sources, run them, write the notebooks")
    build.add_argument("lessons", nargs="*", metavar="NN-slug", help="these lessons only (default: all)")
    commands.add_parser("check", help="say in seconds whether the notebooks are in step and clean")
    work = commands.add_parser("work", help="lay output-free copies for a student, never over edits")
    lab = commands.add_parser("lab", help="lay the copies, then start JupyterLab on them")
    for command in (work, lab):
        command.add_argument("--into", type=Path, help="the student's folder (default: work)")
    lab.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    return parser


def _build(names: Sequence[str], lessons: Path, notebooks: Path) -> int:
    paths = [lessons / f"{name.removesuffix('.md')}.md" for name in names] or lesson_paths(lessons)
    if not paths:
        raise ValueError(f"{lessons} holds no lesson sources (NN-slug.md).")
    failed = 0
    for path in paths:
        started = time.monotonic()
        try:
            written = build_lesson(path, notebooks)
        except ValueError as error:
            failed += 1
            print(error, file=sys.stderr)
            continue
        print(f"{path.stem}: {len(written)} notebooks in {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


def _check(lessons: Path, notebooks: Path) -> int:
    if not lesson_paths(lessons):
        raise ValueError(f"{lessons} holds no lesson sources (NN-slug.md), so there is nothing to check.")
    defects = check(lessons, notebooks)
    for defect in defects:
        print(defect)
    if not defects:
        print(f"{len(lesson_paths(lessons))} lessons: notebooks in step with their sources, and clean.")
    return 1 if defects else 0


def _work(notebooks: Path, work: Path) -> int:
    copies = lay_copies(notebooks, work)
    for copy in copies:
        if copy.note:
            print(copy.note)
    fresh = sum(copy.action == "laid" for copy in copies)
    print(f"{work}: {len(copies)} notebooks, {fresh} of them new.")
    return 0


def _lab(notebooks: Path, work: Path, *, open_browser: bool) -> int:
    _work(notebooks, work)
    # A closed terminal or a plain kill ends the server too.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _leave)
    try:
        with lab_server(work, open_browser=open_browser) as server:
            print(f"JupyterLab: {server.url}\nStop it with Ctrl-C. Its log: {server.log}", flush=True)
            return server.process.wait()
    except KeyboardInterrupt:
        print("\nJupyterLab has stopped; your notebooks are saved in the folder above.")
        return 0


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
