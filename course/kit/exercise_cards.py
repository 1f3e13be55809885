"""The exercise as a student meets it: a card, graded hints, and a check that answers in sentences."""

from typing import Any

import ipywidgets as widgets

from course.kit.answers import ANSWERS, unattended
from course.kit.exercises import Exercise, Verdict, find_exercises, judge
from course.kit.output import container, show, text
from course.kit.style import OPEN_SIGN, RIGHT_SIGN, WRONG_SIGN, verdict_html

_HEADS = {
    "correct": f"{RIGHT_SIGN} **Correct.** ",
    "wrong": f"{WRONG_SIGN} **Not right yet.** ",
    "not done yet": f"{OPEN_SIGN} ",
}


class ExerciseCard:
    """One exercise in a notebook; as the last line of a cell it shows its task. Made by `exercise`."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.key = exercise.key
        self.box: Any = None

    def check(self, answer: Any) -> Verdict:
        """Checks a function and displays what was found: not done yet, correct and why it matters, or what is
        wrong. The verdict is recorded.

        Args:
            answer: The student's function (or class), by name and without parentheses.
        """
        verdict = judge(self.exercise, answer)
        message = _HEADS[verdict.status] + verdict.message
        solved = self._solved()
        if verdict.status == "not done yet":
            # Of a stub nothing is to be recorded, least of all over a verdict.
            message += f" ({solved})" if solved else ""
        else:
            ANSWERS.put(self.key, verdict.status, "exercise", right=verdict.status == "correct")
        if verdict.status == "wrong" and self._hints_taken() < len(self.exercise.hints):
            message += f'\n\nThere is a hint: press *Show a hint* above, or run `exercise("{self.key}").hint()`.'
        show(message, plain=f"check of exercise {self.key}")
        self._refresh()
        return verdict

    def hint(self) -> None:
        """Displays the next hint, each one telling more than the last, and records that it was taken."""
        total = len(self.exercise.hints)
        taken = self._hints_taken()
        if taken == total:
            message = "There are no more hints." if total else "There are no hints for this exercise."
        else:
            ANSWERS.put_hint(self.key, taken + 1)
            message = self._hint(taken + 1)
        show(message, plain=f"hint for exercise {self.key}")
        self._refresh()

    def show(self) -> None:
        """Displays the task; hints stay behind a button, or folded away in an unattended run.

        What was recorded comes back: the hints that were taken, and that the exercise is solved.
        """
        task = f"**Exercise: {self.exercise.title}.** {self.exercise.task}"
        plain = f"exercise {self.key}"
        if unattended():
            total = len(self.exercise.hints)
            folded = [
                f"<details>\n<summary>Hint {i} of {total}</summary>\n\n{hint}\n\n</details>"
                for i, hint in enumerate(self.exercise.hints, 1)
            ]
            show("\n\n".join([task, *folded]), plain=plain)
            return
        self.button = widgets.Button(description="Show a hint", tooltip="Each hint tells more than the last")
        self.button.on_click(lambda _: self._press())
        self.hints = widgets.VBox([])
        self.state = widgets.HTMLMath()
        buttons = [self.button] if self.exercise.hints else []
        self.box = container("exercise", text(task), *buttons, self.hints, self.state)
        self._refresh()
        show(task, plain=plain, widget=self.box)

    def _ipython_display_(self) -> None:
        self.show()

    def _press(self) -> None:
        # A second click may be on its way when the first disables the button.
        ANSWERS.put_hint(self.key, min(self._hints_taken() + 1, len(self.exercise.hints)))
        self._refresh()

    def _refresh(self) -> None:
        """Brings the widget, if there is one, to what is recorded."""
        if self.box is None:
            return
        taken = self._hints_taken()
        self.hints.children = tuple(text(self._hint(number)) for number in range(1, taken + 1))
        self.button.disabled = taken == len(self.exercise.hints)
        solved = self._solved()
        news = ANSWERS.news()
        self.state.value = (verdict_html("right", f"{RIGHT_SIGN} **{solved}**") if solved else "") + (
            verdict_html("open", news) if news else ""
        )

    def _hints_taken(self) -> int:
        entry = ANSWERS.entry(self.key)
        return min(entry.hints, len(self.exercise.hints)) if entry is not None else 0

    def _hint(self, number: int) -> str:
        return f"**Hint {number} of {len(self.exercise.hints)}.** {self.exercise.hints[number - 1]}"

    def _solved(self) -> str:
        entry = ANSWERS.entry(self.key)
        return "You have solved this exercise." if entry is not None and entry.right else ""


_cards: dict[str, ExerciseCard] = {}


def exercise(key: str) -> ExerciseCard:
    """Finds an exercise; the same card each time, so that its check and its hints speak to the card on the page.

    Raises:
        ValueError: No exercise has this key; the message lists those of the same lesson. Or the key names an item of
            another kind too.
    """
    if key not in _cards:
        exercises = find_exercises()
        if key not in exercises:
            near = [other for other in exercises if other[:2] == key[:2]] or list(exercises)
            raise ValueError(f"There is no exercise {key!r}; there are {', '.join(sorted(near)) or 'none'}.")
        ANSWERS.claim(key, "exercise")
        _cards[key] = ExerciseCard(exercises[key])
    return _cards[key]
