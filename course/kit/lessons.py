"""Which lessons there are, and in which order: the numbers of the sources in `course/lessons`."""

from pathlib import Path

LESSONS = Path(__file__).parents[1] / "lessons"


def lesson_numbers(folder: Path = LESSONS) -> tuple[str, ...]:
    """The numbers of the lessons, two digits each, in order."""
    return tuple(sorted({path.name[:2] for path in folder.glob("[0-9][0-9]-*.md")}))


def lesson_title(number: str, folder: Path = LESSONS) -> str:
    """The heading of a lesson, such as "7 · The pretraining entry"; the number alone when there is no such lesson."""
    for path in sorted(folder.glob(f"{number}-*.md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                return line.removeprefix("# ").strip()
    return number
