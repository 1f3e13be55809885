"""Questions from earlier lessons, which come back when they are about to be forgotten.

An item of a lesson comes back 1, 3 and 7 lessons later, counted among the lessons that exist. The items stand in
`course/recall/lessonNN.py`, three or four for each lesson, in a tuple `ITEMS`:

    ITEMS = (
        RecallItem(
            key="02-recall-device",
            question="Which device does a run take when none is named?",
            choices=(Choice("the first GPU, or else the CPU", right=True), Choice("always the CPU", why="...")),
        ),
    )
"""

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course.kit.answers import ANSWERS, Entry, unattended
from course.kit.lessons import lesson_numbers
from course.kit.output import show
from course.kit.quizzes import Choice, Quiz
from course.kit.slips import require_key

__all__ = ["Choice", "RecallItem", "due_items", "find_recall_items", "recall"]

RECALL_PACKAGE = "course.recall"

LESSONS_LATER = (1, 3, 7)
# How many items of one lesson come back each time: with a bank of four, each item once.
ITEMS_EACH_TIME = (2, 1, 1)
LIMIT = 4


@dataclass(frozen=True)
class RecallItem:
    """One question that comes back in later lessons.

    Attributes:
        key: Names the item among all of the course; starts with the number of the lesson that it is about.
        question: Markdown. It must be understood without the lesson at hand.
        choices: Exactly one is right, and every wrong one says why.
    """

    key: str
    question: str
    choices: tuple[Choice, ...]


def recall(lesson: str) -> None:
    """Displays the questions from earlier lessons that are due in a lesson; the same ones when it is opened again.

    Args:
        lesson: The number of the lesson that asks, such as "08".

    Raises:
        ValueError: There is no such lesson, or a bank of items does not keep the rules.
    """
    lessons = lesson_numbers()
    if lesson not in lessons:
        raise ValueError(f"There is no lesson {lesson!r} to recall in; there are {', '.join(lessons)}.")
    # A run without a person asks what a new student is asked.
    recorded = {} if unattended() else ANSWERS.entries()
    items = due_items(lesson, lessons, find_recall_items(), recorded)
    if not items:
        reason = "this is the first lesson" if lesson == lessons[0] else "no question from an earlier lesson is due"
        show(f"**Recall.** Nothing to recall here: {reason}.", plain="recall")
        return
    count = "One question" if len(items) == 1 else f"{('Two', 'Three', 'Four')[len(items) - 2]} questions"
    show(f"**Recall.** {count} from earlier lessons. Answer from memory, before you look anything up.", plain="recall")
    for item in items:
        lead = f"From lesson {int(item.key[:2])}."
        Quiz(occasion(lesson, item), item.question, item.choices, kind="recall", lead=lead).show()


def due_items(
    lesson: str,
    lessons: Sequence[str],
    banks: Mapping[str, Sequence[RecallItem]],
    recorded: Mapping[str, Entry],
) -> list[RecallItem]:
    """Chooses what comes back in a lesson: those answered wrong before first, at most four.

    Each lesson that is 1, 3 or 7 lessons back gives its share (two items the first time, then one): those answered
    wrong when they were last asked, and the others in turn, so that each time another one comes. Room that is left goes
    to further items answered wrong.

    Args:
        lesson: The lesson that asks.
        lessons: All lessons in order.
        banks: The items of each lesson.
        recorded: What the student answered, by key.
    """
    here = lessons.index(lesson)
    chosen: list[RecallItem] = []
    left: list[RecallItem] = []
    missed: set[str] = set()
    for time, distance in enumerate(LESSONS_LATER):
        if distance > here:
            break
        bank = banks.get(lessons[here - distance], ())
        start = sum(ITEMS_EACH_TIME[:time]) % max(1, len(bank))
        in_turn = [*bank[start:], *bank[:start]]
        missed |= {item.key for item in bank if _was_missed(item, lessons[:here], recorded)}
        # What was answered here already stays, whatever became known since.
        in_turn.sort(key=lambda item: (occasion(lesson, item) not in recorded, item.key not in missed))
        chosen += in_turn[: ITEMS_EACH_TIME[time]]
        left += in_turn[ITEMS_EACH_TIME[time] :]
    chosen += [item for item in left if item.key in missed or occasion(lesson, item) in recorded]
    return sorted(chosen[:LIMIT], key=lambda item: item.key not in missed)


def occasion(lesson: str, item: RecallItem) -> str:
    """The key of the answer that an item gets in one lesson: each time it comes back it is a new question."""
    return f"{lesson}-again-{item.key}"


def _was_missed(item: RecallItem, earlier: Sequence[str], recorded: Mapping[str, Entry]) -> bool:
    """Whether the item was answered wrong, at first or at last, when it was asked the last time."""
    for lesson in reversed(earlier):
        if entry := recorded.get(occasion(lesson, item)):
            return entry.wrong > 0
    return False


def find_recall_items(
    package: str = RECALL_PACKAGE, lessons: Sequence[str] | None = None
) -> dict[str, tuple[RecallItem, ...]]:
    """Imports the banks of all lessons and returns their items by the lesson's number.

    Args:
        package: Where the modules `lessonNN` stand.
        lessons: The lessons that exist; those of the course by default.

    Raises:
        ValueError: A module is not named for a lesson or has no `ITEMS`, its lesson does not exist, a key is not the
            lesson's own or is used twice, or the choices do not keep the rules of a quiz.
    """
    exist = lesson_numbers() if lessons is None else lessons
    banks: dict[str, tuple[RecallItem, ...]] = {}
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        name = f"{package}.{module_info.name}"
        match = re.fullmatch(r"lesson(\d\d)", module_info.name)
        if match is None:
            raise ValueError(f"{name} is not named for a lesson; call it lessonNN, as in lesson07.")
        lesson = match[1]
        if lesson not in exist:
            raise ValueError(f"{name} belongs to lesson {lesson}, which does not exist; there are {', '.join(exist)}.")
        items = getattr(importlib.import_module(name), "ITEMS", None)
        if not isinstance(items, tuple) or not all(isinstance(item, RecallItem) for item in items):
            raise ValueError(f"{name} has no tuple ITEMS of RecallItem; add one.")
        _check_bank(name, lesson, items)
        banks[lesson] = items
    return banks


def _check_bank(name: str, lesson: str, items: Sequence[RecallItem]) -> None:
    seen: set[str] = set()
    for item in items:
        require_key("recall", item.key)
        if item.key[:2] != lesson:
            raise ValueError(
                f"The recall key {item.key!r} in {name} must start with {lesson}, the number of its lesson."
            )
        if item.key in seen:
            raise ValueError(f"The recall key {item.key!r} stands twice in {name}; rename one.")
        seen.add(item.key)
        Quiz(item.key, item.question, item.choices, kind="recall")  # refuses what is no question with its choices
