"""What the student answered, and whether a student is there at all.

Predictions, quizzes and exercises report here and read back from here, so this is the one place that a
progress file has to know: an `Answers` that also writes to disk can replace `ANSWERS` and nothing else
changes.
"""

import os
from collections.abc import Callable

Answer = str | float | int | bool

UNATTENDED = "MINIMIND_COURSE_UNATTENDED"


def unattended() -> bool:
    """Says whether the notebook runs without a person, as the build and the notebook tests do.

    Raises:
        ValueError: The environment variable holds something other than 0 or 1.
    """
    value = os.environ.get(UNATTENDED, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"The environment variable {UNATTENDED} is {value!r}; set it to 1, or to 0, or unset it.")
    return value == "1"


class Answers:
    """The answers given in this kernel, by key."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def put(self, key: str, answer: Answer) -> None:
        """Records an answer, over an earlier one, and wakes what waited for it."""
        self._answers[key] = answer
        for call in self._waiting.pop(key, []):
            call()

    def get(self, key: str) -> Answer | None:
        """The recorded answer, or None."""
        return self._answers.get(key)

    def when_answered(self, key: str, call: Callable[[], None]) -> None:
        """Calls once when the key is answered; at once when it already is."""
        if key in self._answers:
            call()
        else:
            self._waiting.setdefault(key, []).append(call)

    def clear(self) -> None:
        """Forgets everything, as a new kernel does."""
        self._answers.clear()
        self._waiting.clear()


ANSWERS = Answers()
