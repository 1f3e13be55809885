"""How far the student has come, as a table, and a lesson started over."""

import re
from collections.abc import Iterable

from course.kit.answers import ANSWERS, Entry, unattended, work_folder
from course.kit.lessons import lesson_title
from course.kit.output import show
from course.kit.progress_file import NAME, Kind, lesson_of
from course.kit.style import markdown_table

_HEADER = (
    "lesson",
    "predictions made",
    "of these right",
    "quiz right",
    "recall right",
    "exercises solved",
    "hints taken",
)


def progress() -> None:
    """Displays a table with a row for each lesson in which something was answered.

    An unattended run, which keeps no answers, says so in its place.
    """
    if unattended():
        show("**Your progress.** Nothing here: this run has no student.", plain="progress")
        return
    by_lesson: dict[str, list[Entry]] = {}
    for key, entry in sorted(ANSWERS.entries(fresh=True).items()):
        by_lesson.setdefault(lesson_of(key), []).append(entry)
    rows = [[lesson_title(lesson), *_counts(entries)] for lesson, entries in by_lesson.items()]
    table = markdown_table(_HEADER, rows) if rows else "Nothing is answered yet."
    folder = work_folder()
    kept = "Kept until this kernel stops" if folder is None else f"Saved in `{folder.name}/{NAME}`"
    example = next(iter(by_lesson), "07")
    note = f'{kept}. `start_over("{example}")` forgets the answers of one lesson; the file as it was is kept beside it.'
    show(f"**Your progress.**\n\n{table}\n\n{note}", plain="progress")


def start_over(lesson: str) -> None:
    """Forgets all answers, verdicts and hints of one lesson; the progress file as it was is kept beside the new one.

    Args:
        lesson: The number of the lesson, two digits, such as "07".

    Raises:
        ValueError: It is not two digits.
    """
    if not isinstance(lesson, str) or not re.fullmatch(r"\d\d", lesson):
        raise ValueError(f'start_over takes the two digits of a lesson, as in start_over("07"), not {lesson!r}.')
    known = any(lesson_of(key) == lesson for key in ANSWERS.entries(fresh=True))
    kept = ANSWERS.forget(lesson)
    if not known:
        message = f"Nothing was answered in lesson {lesson} yet."
    else:
        message = f"Lesson {lesson} starts over: run its cells again, from the top."
        message += f" What you had is kept in `{kept.name}`." if kept is not None else ""
    show(message, plain="starting over")


def _counts(entries: Iterable[Entry]) -> list[str]:
    """The cells of a row, in the order of the header."""
    entries = list(entries)

    def of(kind: Kind) -> list[Entry]:
        return [entry for entry in entries if entry.kind == kind and entry.answer is not None]

    def right(kind: Kind) -> str:
        return f"{sum(entry.right is True for entry in of(kind))} of {len(of(kind))}" if of(kind) else "-"

    predictions = of("prediction")
    return [
        str(len(predictions)),
        str(sum(entry.right is True for entry in predictions)),
        right("quiz"),
        right("recall"),
        str(sum(entry.right is True for entry in of("exercise"))),
        str(sum(entry.hints for entry in entries)),
    ]
