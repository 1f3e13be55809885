"""Quiz items: radio buttons, and for every wrong choice the reason why it is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ipywidgets as widgets

from course.kit.answers import ANSWERS, unattended
from course.kit.output import Silent, container, radio_buttons, show, tell, tell_news, text
from course.kit.slips import require_options, require_text
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
    """One question with its choices. Made by `quiz`, and by `recall` with a lead of its own."""

    def __init__(
        self,
        key: str,
        question: str,
        choices: Sequence[Choice],
        kind: Literal["quiz", "recall"] = "quiz",
        lead: str = "Quiz.",
    ) -> None:
        """Raises ValueError as `quiz` says.

        Args:
            key: What the answer is recorded under.
            question: Markdown.
            choices: Exactly one is right, and every wrong one says why.
            kind: The kind of item, which is also its css class.
            lead: Stands in bold before the question.
        """
        self.key = key
        self.question = question
        self.choices = tuple(choices)
        self.kind: Literal["quiz", "recall"] = kind
        self.lead = lead
        self._validate()

    def _validate(self) -> None:
        where = f"{self.kind.capitalize()} {self.key!r}"
        require_text(where, "the question", self.question)
        for choice in self.choices:
            if not isinstance(choice, Choice):
                raise ValueError(f"{where}: the choice {choice!r} is a {type(choice).__name__}; write Choice(...).")
        require_options(where, "choice", [choice.text for choice in self.choices])
        right = [choice.text for choice in self.choices if choice.right]
        if len(right) != 1:
            raise ValueError(f"{where} marks {len(right)} choices as right {right}; mark exactly one.")
        for choice in self.choices:
            if not choice.right and not choice.why.strip():
                raise ValueError(f"{where}: the wrong choice {choice.text!r} has no why; say what is wrong with it.")

    def show(self) -> None:
        """Displays the item; the last answer comes back with it."""
        ANSWERS.claim(self.key, self.kind)
        plain = f"{self.kind} {self.key}"
        if unattended():
            show(f"{self._question()}\n\n{self._folded_answer()}", plain=plain)
            return
        texts = [choice.text for choice in self.choices]
        buttons = radio_buttons(texts)
        self.radio = buttons[-1]
        self.button = widgets.Button(description="Check", tooltip="Say whether the chosen answer is right")
        self.feedback = widgets.HTMLMath()
        self.button.on_click(lambda _: self.check())
        head = text(f"**{self.lead}** {self.question}")
        self.box: Any = container(self.kind, head, *buttons, self.button, self.feedback)
        given = ANSWERS.get(self.key)
        if given in texts:
            self.radio.value = texts.index(str(given))
            self._respond()
        show(self._question(), plain=plain, widget=self.box)

    def check(self) -> None:
        """Says whether the chosen answer is right, and why not when it is not; it may be tried again."""
        if self.radio.value is None:
            tell(self.feedback, "open", "Choose one of the answers first.")
            return
        choice = self.choices[self.radio.value]
        ANSWERS.put(self.key, choice.text, self.kind, right=choice.right)
        self._respond()
        tell_news(self.feedback)

    def _respond(self) -> None:
        choice = self.choices[self.radio.value]
        chosen = letter(self.radio.value)
        if choice.right:
            tell(self.feedback, "right", f"{RIGHT_SIGN} **Right.** {chosen}: {choice.why or choice.text}")
        else:
            tell(self.feedback, "wrong", f"{WRONG_SIGN} **Not {chosen}.** {choice.why}")

    def _question(self) -> str:
        return f"**{self.lead}** {self.question}\n\n{lettered([choice.text for choice in self.choices])}"

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
        ValueError: The choices do not keep those rules or are not text, or the key does not start with the lesson's
            number or names an item of another kind.
    """
    item = Quiz(key, question, choices)
    item.show()
    return item
