"""What every lab shares: its command line, its reference record, its report of differences."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from minimind.folders import require_folder
from minimind.trace import Record

if TYPE_CHECKING:  # drawing is a second's import, which a lab without --plot need not pay
    from matplotlib.figure import Figure

RECORDS = Path(__file__).parent / "records"


def reference_path(lab: str) -> Path:
    """Where the reference record of a lab stands."""
    return RECORDS / f"{lab}.json"


def load_reference(lab: str) -> Record:
    """The reference record of a lab.

    Raises:
        ValueError: there is none yet; the message says how to make one.
    """
    path = reference_path(lab)
    if not path.is_file():
        raise ValueError(
            f"{lab} has no reference record; `python -m labs record {lab}` writes labs/records/{path.name}."
        )
    return Record.load(path)


def check(record: Record) -> list[str]:
    """One line for every field in which a record differs from its lab's reference; none when it holds."""
    return [str(difference) for difference in record.compare(load_reference(record.lab))]


def command_line(
    run: Callable[..., Record],
    draw: "Callable[[Record], Figure]",
    argv: Sequence[str] | None = None,
    not_options: frozenset[str] = frozenset(),
) -> int:
    """Runs one lab from the command line; its options are the typed arguments of `run`.

    Args:
        run: the lab.
        draw: its figure.
        argv: the arguments; None takes the process's own.
        not_options: arguments of `run` that only Python can give.

    Returns:
        The exit status: 0, or 1 when an argument is wrong or `--check` finds a difference.
    """
    lab = run.__module__.rsplit(".", 1)[-1]
    if lab == "__main__":
        lab = Path(sys.argv[0]).stem
    summary = (run.__doc__ or "").split("\n\n")[0]  # the rest of it describes the options, and stands beside them
    parser = ArgumentParser(prog=lab, allow_abbrev=False, usage=f"{lab}.py [options]", description=summary)
    parser.add_function_arguments(run, skip=set(not_options))
    parser.add_argument("--json", type=str, default="", help="write the record to this file")
    parser.add_argument("--plot", type=str, default="", help="draw the figure into this .png, .svg or .pdf file")
    parser.add_argument("--check", action="store_true", help="compare with the reference record; 1 if it differs")
    options: dict[str, Any] = parser.parse_args(argv).as_dict()
    json_path, plot_path, compare = options.pop("json"), options.pop("plot"), options.pop("check")
    try:
        if plot_path and Path(plot_path).suffix not in (".png", ".svg", ".pdf"):
            raise ValueError(f"plot={plot_path!r} must end in .png, .svg or .pdf.")
        for option, path in (("json", json_path), ("plot", plot_path)):
            if path:
                require_folder(option, str(Path(path).parent))
                if Path(path).is_dir():
                    raise ValueError(f"{option}={path!r} is a folder; name a file in it.")
        record = run(**options)
        print(record.table())
        if json_path:
            record.save(json_path)
            print(f"\nrecord in {json_path}")
        if plot_path:
            Path(plot_path).parent.mkdir(parents=True, exist_ok=True)
            draw(record).savefig(plot_path, dpi=150)
            print(f"figure in {plot_path}")
        if not compare:
            return 0
        differences = check(record)
    except (ValueError, OSError) as error:
        print(f"{lab}: {error}", file=sys.stderr)
        return 1
    if differences:
        print(f"\n{len(differences)} fields differ from {reference_path(lab).name}:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in differences[:20]), file=sys.stderr)
        return 1
    print(f"\nequal to the reference record {reference_path(lab).name}, within tolerance")
    return 0


def is_lab(module: ModuleType) -> bool:
    """Whether a module of this package is a lab: it names its question."""
    return isinstance(getattr(module, "QUESTION", None), str)
