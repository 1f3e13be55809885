"""The exercise as a student meets it: a card, graded hints, and a check that answers in sentences."""

from typing import Any

import ipywidgets as widgets

from course.kit.answers import ANSWERS, unattended
from course.kit.exercises import Exercise, Verdict, find_exercises, judge
from course.kit.output import container, show, text
from course.kit.style import OPEN_SIGN, RIGHT_SIGN, WRONG_SIGN

_HEADS = {
    "correct": f"{RIGHT_SIGN} **Correct.** ",
    "wrong": f"{WRONG_SIGN} **Not right yet.** ",
    "not done yet": f"{OPEN_SIGN} ",
}


class ExerciseCard:
    """One exercise in a notebook; as the last line of a cell it shows its task. Made by `exercise`."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self._hints_shown = 0

    def check(self, answer: Any) -> Verdict:
        """Checks a function and displays what was found: not done yet, correct and why it matters, or what is
        wrong.

        Args:
            answer: The student's function (or class), by name and without parentheses.
        """
        verdict = judge(self.exercise, answer)
        ANSWERS.put(self.exercise.key, verdict.status)
        show(_HEADS[verdict.status] + verdict.message, plain=f"check of exercise {self.exercise.key}")
        return verdict

    def hint(self) -> None:
        """Displays the next hint, each one telling more than the last."""
        show(self._next_hint(), plain=f"hint for exercise {self.exercise.key}")

    def show(self) -> None:
        """Displays the task; hints stay behind a button, or folded away in an unattended run."""
        task = f"**Exercise: {self.exercise.title}.** {self.exercise.task}"
        plain = f"exercise {self.exercise.key}"
        if unattended():
            total = len(self.exercise.hints)
            folded = [
                f"<details>\n<summary>Hint {i} of {total}</summary>\n\n{hint}\n\n</details>"
                for i, hint in enumerate(self.exercise.hints, 1)
            ]
            show("\n\n".join([task, *folded]), plain=plain)
            return
        self.button = widgets.Button(description="Show a hint", tooltip="Each hint tells more than the last")
        self.button.on_click(lambda _: self._add_hint())
        self.hints = widgets.VBox([])
        self.box = container("exercise", text(task), *([self.button] if self.exercise.hints else []), self.hints)
        show(task, plain=plain, widget=self.box)

    def _ipython_display_(self) -> None:
        self.show()

    def _add_hint(self) -> None:
        self.hints.children = (*self.hints.children, text(self._next_hint()))
        self.button.disabled = self._hints_shown == len(self.exercise.hints)

    def _next_hint(self) -> str:
        total = len(self.exercise.hints)
        if self._hints_shown == total:
            return "There are no more hints." if total else "There are no hints for this exercise."
        self._hints_shown += 1
        return f"**Hint {self._hints_shown} of {total}.** {self.exercise.hints[self._hints_shown - 1]}"


_cards: dict[str, ExerciseCard] = {}


def exercise(key: str) -> ExerciseCard:
    """Finds an exercise; the same card each time, so that hints go on where they stopped.

    Raises:
        ValueError: No exercise has this key; the message lists those of the same lesson.
    """
    if key not in _cards:
        exercises = find_exercises()
        if key not in exercises:
            near = [other for other in exercises if other[:2] == key[:2]] or list(exercises)
            raise ValueError(f"There is no exercise {key!r}; there are {', '.join(sorted(near)) or 'none'}.")
        _cards[key] = ExerciseCard(exercises[key])
    return _cards[key]
