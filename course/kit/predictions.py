"""Prediction gates: say what you expect, commit, and only then see what the run gave.

guess = predict("07-loss", "What is the loss of an untrained model?", options=["about 0", "about 9"])
guess.reveal(lambda: run(steps=1), answer=lambda record: "about 9" if record.steps[0].loss > 8 else "about 0")
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from course.kit.answers import ANSWERS, Answer, unattended
from course.kit.output import Silent, capture, container, present, radio_buttons, show, tell, tell_news, text
from course.kit.slips import require_options, require_text
from course.kit.style import RIGHT_SIGN, letter, lettered, number

WAITING = "Answer the prediction above; the result then appears here."

RIGHT_WITHIN = 0.01  # a float predicted within 1 % is right: nobody predicts the fourth digit
CLOSE_WITHIN = 0.25

SHORT_CHARACTERS = 60


class Prediction(Silent):
    """One question, its committed answer, and the results that wait for it."""

    def __init__(self, key: str, question: str, stated: Answer) -> None:
        """Made by `predict` and `predict_number`, where the arguments are explained."""
        self.key = key
        self.question = question
        self.stated = stated
        self.input: Any = None
        self.button = widgets.Button(
            description="Commit my prediction",
            tooltip="The result appears after this",
            button_style="primary",
        )
        self.feedback = widgets.HTMLMath()
        self.button.on_click(lambda _: self.commit())

    # What differs between choosing and typing a number.

    def _inputs(self) -> list[Any]:
        """Widgets to answer with; sets `input` to the one that holds the answer."""
        raise NotImplementedError

    def given(self) -> Answer | None:
        """The committed answer, or None; also one from before this question was displayed again."""
        raise NotImplementedError

    def _read(self) -> Answer | None:
        """The answer in the input, or None after saying what is missing."""
        raise NotImplementedError

    def _twin(self) -> str:
        raise NotImplementedError

    def say(self, answer: Answer) -> str:
        """Names an answer in a sentence."""
        raise NotImplementedError

    def verdict(self, predicted: Answer, answer: Answer) -> str:
        """Compares in words: starts with right, close or different."""
        raise NotImplementedError

    def _require(self, answer: Any) -> Answer:
        """Refuses an answer of the run that the question has no place for."""
        raise NotImplementedError

    # What is the same.

    def show(self) -> None:
        """Displays the question; a committed answer comes back with it."""
        ANSWERS.claim(self.key, "prediction")
        if unattended():
            ANSWERS.put(self.key, self.stated, "prediction")
            show(
                f"{self._twin()}\n\n*Unattended run: answered {self.say(self.stated)}.*",
                plain=f"prediction {self.key}",
            )
            return
        self.box = container(
            "predict", text(f"**Predict.** {self.question}"), *self._inputs(), self.button, self.feedback
        )
        given = self.given()
        if given is not None:
            self._close(given)
        show(self._twin(), plain=f"prediction {self.key}", widget=self.box)

    def commit(self) -> None:
        """Takes the answer from the widget for good, and opens what waited for it."""
        answer = self._read()
        if answer is not None:
            self._close(answer)
            ANSWERS.put(self.key, answer, "prediction")
            tell_news(self.feedback)

    def _close(self, answer: Answer) -> None:
        self.button.disabled = True
        self.input.disabled = True
        tell(
            self.feedback,
            "open",
            f"Committed: {self.say(answer)}. The result is below; run its cell if it is not there yet.",
        )

    def reveal(self, result: Any, *, answer: Any, then: str = "") -> None:
        """Shows a result beside the prediction, once there is one.

        Args:
            result: Something to display, or a function without arguments that computes, prints or displays
                it. A function is not called before the student has committed.
            answer: What the run gave, in the terms of the question: one of the options, or a number. Or a
                function that takes the displayed result and returns that.
            then: Markdown that explains the result; it waits behind the gate as well, since under the question it
                would answer it.

        Raises:
            ValueError: The answer is none of the options, or not a number.
        """
        if not callable(answer):
            self._require(answer)
        if unattended():
            # Stated again, so that this cell means the same when it runs without the cell above.
            ANSWERS.put(self.key, self.stated, "prediction")
        if self.given() is not None:
            show(_paragraphs(self._present(result, answer), then), plain=f"result of prediction {self.key}")
            return
        area = container("reveal", text(WAITING))
        self.area = area
        show(WAITING, plain=f"result of prediction {self.key}", widget=area)
        ANSWERS.when_answered(self.key, lambda: self._fill(area, result, answer, then))

    def _present(self, result: Any, answer: Any) -> str:
        """Displays the result and returns the sentence that goes under it."""
        value = result() if callable(result) else result
        present(value)
        given = self._require(answer(value) if callable(answer) else answer)
        predicted = self.given()
        assert predicted is not None
        verdict = self.verdict(predicted, given)
        ANSWERS.put_outcome(self.key, right=verdict.startswith("right"))
        who = "The unattended run" if unattended() else "You"
        return (
            f"{who} predicted {self.say(predicted)}; the run gave "
            f"{'the same' if predicted == given else self.say(given)}: **{verdict}**."
        )

    def _fill(self, area: Any, result: Any, answer: Any, then: str) -> None:
        style = area.children[0]
        area.children = (style, text("Working …"))
        sentence: list[str] = []
        try:
            pieces = capture(lambda: sentence.append(self._present(result, answer)))
        except Exception as error:
            # A callback has no cell in which Jupyter could show the error, so it would be lost.
            area.children = (
                style,
                text(f"The result could not be computed: {type(error).__name__}: {error}"),
            )
            return
        area.children = (style, *pieces, text(_paragraphs(sentence[0], then)))


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(each.strip() for each in texts if each.strip())


class ChoicePrediction(Prediction):
    """A prediction among a few options."""

    def __init__(self, key: str, question: str, options: Sequence[str], stated: str | None) -> None:
        """Raises ValueError for options missing, repeated or no text, or a stated answer not among them."""
        require_text(f"Prediction {key!r}", "the question", question)
        require_options(f"Prediction {key!r}", "option", options)
        self.options = tuple(options)
        if stated is not None:
            require_text(f"Prediction {key!r}", "`stated`", stated)
        super().__init__(key, question, self._require_option(key, self.options[0] if stated is None else stated))

    def _require_option(self, key: str, answer: Any) -> str:
        if answer not in self.options:
            raise ValueError(f"Prediction {key!r}: the answer {answer!r} is none of the options {list(self.options)}.")
        return str(answer)

    def _require(self, answer: Any) -> Answer:
        return self._require_option(self.key, answer)

    def given(self) -> Answer | None:
        """The committed option, unless it is none of these options any more."""
        given = ANSWERS.get(self.key)
        return given if given in self.options else None

    def _inputs(self) -> list[Any]:
        buttons = radio_buttons(self.options)
        self.input = buttons[-1]
        given = self.given()
        if given is not None:
            self.input.value = self.options.index(str(given))
        return buttons

    def _read(self) -> Answer | None:
        if self.input.value is None:
            tell(self.feedback, "open", "Choose one of the answers first.")
            return None
        return self.options[int(self.input.value)]

    def _twin(self) -> str:
        return f"**Predict.** {self.question}\n\n{lettered(self.options)}"

    def say(self, answer: Answer) -> str:
        """The letter of the option, and its text where that is short."""
        option = str(answer)
        name = f"**{letter(self.options.index(option))}**"
        return f"{name} ({option})" if len(option) <= SHORT_CHARACTERS else name

    def verdict(self, predicted: Answer, answer: Answer) -> str:
        """Right or different."""
        return f"right {RIGHT_SIGN}" if predicted == answer else "different"


class NumberPrediction(Prediction):
    """A prediction of a number."""

    def __init__(self, key: str, question: str, unit: str, stated: float) -> None:
        require_text(f"Prediction {key!r}", "the question", question)
        self.key, self.unit = key, unit
        super().__init__(key, question, self._require(stated, "`stated`"))

    def _require(self, answer: Any, what: str = "the answer") -> Answer:
        if hasattr(answer, "item"):  # a scalar of torch or numpy
            answer = answer.item()
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            raise ValueError(f"Prediction {self.key!r}: {what} {answer!r} is not a number; pass an int or a float.")
        return answer

    def given(self) -> Answer | None:
        """The committed number."""
        given = ANSWERS.get(self.key)
        return given if isinstance(given, int | float) else None

    def _inputs(self) -> list[Any]:
        self.input = widgets.Text(
            placeholder="a number",
            description="Prediction",
            style={"description_width": "auto"},
            layout=widgets.Layout(width="16em"),
        )
        given = self.given()
        if given is not None:
            self.input.value = number(given)
        return [widgets.HBox([self.input, widgets.Label(self.unit)])]

    def _read(self) -> Answer | None:
        value = parse_number(self.input.value)
        if value is None:
            tell(self.feedback, "open", "Type one number first, such as 48, 0.25 or 3e-4.")
        return value

    def _twin(self) -> str:
        unit = f" (in {self.unit})" if self.unit else ""
        return f"**Predict.** {self.question}{unit}"

    def say(self, answer: Answer) -> str:
        """The number with its unit."""
        return f"**{number(answer)}**" + (f" {self.unit}" if self.unit else "")

    def verdict(self, predicted: Answer, answer: Answer) -> str:
        """Right, close or different, and in which direction; whole numbers are right only when equal."""
        assert isinstance(predicted, int | float) and isinstance(answer, int | float)
        if predicted == answer:
            return f"right {RIGHT_SIGN}"
        distance = abs(predicted - answer) / abs(answer) if answer else math.inf
        if not isinstance(answer, int) and distance <= RIGHT_WITHIN:
            return f"right {RIGHT_SIGN}"
        direction = "high" if predicted > answer else "low"
        if distance <= CLOSE_WITHIN:
            return f"close, a little too {direction}"
        return f"different, {_how_far(predicted, answer)}too {direction}"


def predict(key: str, question: str, options: Sequence[str], *, stated: str | None = None) -> ChoicePrediction:
    """Asks for a prediction among options and displays it; hide the result behind `.reveal(...)`.

    Args:
        key: Names the prediction among all of the course, such as "07-loss".
        question: Markdown.
        options: At least two; Markdown, shown without markup beside the radio buttons.
        stated: The option that a run without a person answers; the first when not given.

    Raises:
        ValueError: Options are missing, repeated or not text, `stated` is none of them, or the key does not start
            with the lesson's number or names an item of another kind.
    """
    prediction = ChoicePrediction(key, question, options, stated)
    prediction.show()
    return prediction


def predict_number(key: str, question: str, unit: str = "", *, stated: float = 0) -> NumberPrediction:
    """Asks for a number and displays the question; hide the result behind `.reveal(...)`.

    Args:
        key: Names the prediction among all of the course.
        question: Markdown.
        unit: Shown after the number, such as "tokens" or "nats".
        stated: The number that a run without a person answers.

    Raises:
        ValueError: `stated` is not a number, or the key does not start with the lesson's number or names an item of
            another kind.
    """
    prediction = NumberPrediction(key, question, unit, stated)
    prediction.show()
    return prediction


def parse_number(typed: str) -> float | int | None:
    """Reads what a person types as a number: 48, 63,912,192, 6_400, 0.25, 3e-4. None when it is not one."""
    typed = typed.strip().replace("−", "-")
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?", typed):
        typed = typed.replace(",", "")
    typed = re.sub(r"(?<=\d)[ _](?=\d{3}(\D|$))", "", typed)
    if re.fullmatch(r"[-+]?\d+", typed):
        return int(typed)
    try:
        value = float(typed)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _how_far(predicted: float, answer: float) -> str:
    """How many times apart, in words, so that a last digit cannot change the sentence."""
    if predicted * answer <= 0:
        return ""
    times = max(predicted / answer, answer / predicted)
    for bound, words in ((100, "more than 100 times "), (10, "more than 10 times "), (2, "more than twice ")):
        if times > bound:
            return words
    return ""
