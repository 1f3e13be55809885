"""Quiz items: radio buttons, and for every wrong choice the reason why it is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from course.kit.answers import ANSWERS, unattended
from course.kit.output import Silent, container, radio_buttons, show, tell, text
from course.kit.style import RIGHT_SIGN, WRONG_SIGN, letter, lettered


@dataclass(frozen=True)
class Choice:
    """One answer to choose.

    Attributes:
        text: Markdown, one line.
        right: Whether it is the right one.
        why: The reason it is wrong, or for the right one an optional word more. Markdown.
    """

    text: str
    right: bool = False
    why: str = ""


class Quiz(Silent):
    """One question with its choices. Made by `quiz`."""

    def __init__(self, key: str, question: str, choices: Sequence[Choice]) -> None:
        self.key = key
        self.question = question
        self.choices = tuple(choices)
        self._validate()

    def _validate(self) -> None:
        texts = [choice.text for choice in self.choices]
        if len(texts) < 2 or len(set(texts)) != len(texts):
            raise ValueError(f"Quiz {self.key!r} has the choices {texts}; give at least two, no two of them equal.")
        right = [choice.text for choice in self.choices if choice.right]
        if len(right) != 1:
            raise ValueError(f"Quiz {self.key!r} marks {len(right)} choices as right {right}; mark exactly one.")
        for choice in self.choices:
            if not choice.right and not choice.why.strip():
                raise ValueError(
                    f"Quiz {self.key!r}: the wrong choice {choice.text!r} has no why; say what is wrong with it."
                )

    def show(self) -> None:
        """Displays the item."""
        if unattended():
            show(f"{self._question()}\n\n{self._folded_answer()}", plain=f"quiz {self.key}")
            return
        buttons = radio_buttons([choice.text for choice in self.choices])
        self.radio = buttons[-1]
        self.button = widgets.Button(description="Check", tooltip="Say whether the chosen answer is right")
        self.feedback = widgets.HTMLMath()
        self.button.on_click(lambda _: self.check())
        self.box: Any = container("quiz", text(f"**Quiz.** {self.question}"), *buttons, self.button, self.feedback)
        show(self._question(), plain=f"quiz {self.key}", widget=self.box)

    def check(self) -> None:
        """Says whether the chosen answer is right, and why not when it is not; it may be tried again."""
        if self.radio.value is None:
            tell(self.feedback, "open", "Choose one of the answers first.")
            return
        choice = self.choices[self.radio.value]
        ANSWERS.put(self.key, choice.text)
        chosen = letter(self.radio.value)
        if choice.right:
            tell(self.feedback, "right", f"{RIGHT_SIGN} **Right.** {chosen}: {choice.why or choice.text}")
        else:
            tell(self.feedback, "wrong", f"{WRONG_SIGN} **Not {chosen}.** {choice.why}")

    def _question(self) -> str:
        return f"**Quiz.** {self.question}\n\n{lettered([choice.text for choice in self.choices])}"

    def _folded_answer(self) -> str:
        right = next(i for i, choice in enumerate(self.choices) if choice.right)
        lines = [f"{RIGHT_SIGN} **{letter(right)}.** {self.choices[right].why or 'Right.'}"]
        lines += [f"- **Not {letter(i)}.** {choice.why}" for i, choice in enumerate(self.choices) if not choice.right]
        body = lines[0] + "\n\n" + "\n".join(lines[1:])
        return f"<details>\n<summary>Answer</summary>\n\n{body}\n\n</details>"


def quiz(key: str, question: str, choices: Sequence[Choice]) -> Quiz:
    """Displays a quiz item: a widget with feedback, or in an unattended run the item with its answer folded
    away.

    Args:
        key: Names the item among all of the course, such as "07-shift".
        question: Markdown.
        choices: Exactly one is right, and every wrong one says why.

    Raises:
        ValueError: The choices do not keep those rules.
    """
    item = Quiz(key, question, choices)
    item.show()
    return item
