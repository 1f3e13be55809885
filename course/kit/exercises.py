"""What an exercise is, where exercises are found, and how one is judged and proven. Nothing is displayed
here.

Exercises live in `course/exercises/NN_slug.py`, one module for each lesson, in a tuple `EXERCISES`:

    EXERCISES = (
        Exercise(
            key="07-parameter-count",
            title="Count the parameters",
            task="Write `count(model)`: the number of parameters, with the tied head counted once.",
            check=check_count,                     # calls the student's function and returns a Verdict
            reference=reference_count,
            wrong_answers=(WrongAnswer("tied head counted twice", count_twice, "twice"),),
            hints=("Which two names share one tensor?",),
        ),
    )
"""

import importlib
import inspect
import linecache
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, Literal

from course.kit.output import Silent
from course.kit.slips import require_key
from course.kit.style import code_span

EXERCISE_PACKAGE = "course.exercises"


@dataclass(frozen=True)
class Verdict(Silent):
    """What a check found; true when the answer is correct.

    Attributes:
        status: "correct", "wrong" or "not done yet".
        message: Markdown. For a correct answer one sentence on why it matters; for a wrong one the sentence
            that says what is wrong.
    """

    status: Literal["correct", "wrong", "not done yet"]
    message: str

    @classmethod
    def correct(cls, message: str) -> "Verdict":
        """The answer is right; the message says why it matters."""
        return cls("correct", message)

    @classmethod
    def wrong(cls, message: str) -> "Verdict":
        """The answer is wrong; the message says in what."""
        return cls("wrong", message)

    def __bool__(self) -> bool:
        return self.status == "correct"


@dataclass(frozen=True)
class WrongAnswer:
    """A mistake that students make, which the check must catch.

    Attributes:
        name: What is wrong, in a few words.
        function: The answer with that mistake.
        expect_in_message: Words that the verdict's message must contain, so that it is rejected for this
            mistake.
    """

    name: str
    function: Callable[..., Any]
    expect_in_message: str


@dataclass(frozen=True)
class Exercise:
    """One exercise. See the head of this module for an example.

    Attributes:
        key: Names the exercise among all of the course; starts with the lesson's number.
        title: A few words.
        task: One sentence, Markdown.
        check: Calls a student's function and says what it found. It may let that function's exceptions pass,
            and need not think of stubs: both are handled by `judge`.
        reference: A right answer.
        wrong_answers: The bank that proves the check.
        hints: From a nudge to nearly the answer, Markdown.
        returns_value: False for a function that works in place, so that returning None is no sign of a stub.
    """

    key: str
    title: str
    task: str
    check: Callable[[Callable[..., Any]], Verdict]
    reference: Callable[..., Any]
    wrong_answers: tuple[WrongAnswer, ...]
    hints: tuple[str, ...]
    returns_value: bool = True


def find_exercises(package: str = EXERCISE_PACKAGE) -> dict[str, Exercise]:
    """Imports every module of the package and returns its exercises by key.

    Raises:
        ValueError: A module has no `EXERCISES`, a key does not start with the lesson's number, or two exercises have
            the same key; the modules are named.
    """
    found: dict[str, Exercise] = {}
    home: dict[str, str] = {}
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module_info.name.startswith("_"):
            continue
        name = f"{package}.{module_info.name}"
        module = importlib.import_module(name)
        if not isinstance(getattr(module, "EXERCISES", None), tuple):
            raise ValueError(f"{name} has no tuple EXERCISES; add one, or start the name of the module with _.")
        for item in module.EXERCISES:
            require_key("exercise", item.key)
            if item.key in found:
                raise ValueError(f"The exercise key {item.key!r} is in {home[item.key]} and in {name}; rename one.")
            found[item.key] = item
            home[item.key] = name
    return found


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Runs the check on an answer and turns whatever happens into a verdict.

    A stub (raises NotImplementedError, or returns None where a value is due) is not done yet. An exception in
    the student's code becomes its type, its message and the student's own line.

    Args:
        exercise: Whose check to run.
        answer: The student's function or class.

    Raises:
        TypeError: The check itself returned no Verdict.
    """
    if not callable(answer):
        return Verdict.wrong(
            f"`check` takes the function itself, and was given a `{type(answer).__name__}`: "
            "write its name without parentheses."
        )
    # A class is passed as it is, since a check may look into it; only its methods can say that they are
    # stubs.
    watched = answer if inspect.isclass(answer) else _Watched(answer)
    call = watched if isinstance(watched, _Watched) else None
    try:
        verdict = exercise.check(watched)
    except Exception as error:
        if _is_stub(error, answer):
            return _not_done("the function still raises `NotImplementedError`")
        if call is not None and call.returned_none and exercise.returns_value:
            return _not_done("the function returns nothing, so a `return` is missing")
        return Verdict.wrong(_explain(error, answer, inside=call is None or error is call.error))
    if call is not None and call.error is not None and _is_stub(call.error, answer):
        return _not_done("the function still raises `NotImplementedError`")
    if call is not None and call.returned_none and exercise.returns_value:
        return _not_done("the function returns nothing, so a `return` is missing")
    if not isinstance(verdict, Verdict):
        raise TypeError(f"The check of exercise {exercise.key!r} returned {verdict!r}; it must return a Verdict.")
    return verdict


def prove(exercise: Exercise) -> list[str]:
    """Tries the check on everything whose verdict is known, and lists what came out otherwise; [] is proven."""
    problems = []
    verdict = judge(exercise, exercise.reference)
    if verdict.status != "correct":
        problems.append(f"the reference is {verdict.status}: {verdict.message}")
    elif not verdict.message.strip():
        problems.append("the message for a correct answer is empty; say why it matters")
    stubs: list[Callable[..., Any]] = [_raising_stub] + ([_empty_stub] if exercise.returns_value else [])
    for stub in stubs:
        verdict = judge(exercise, stub)
        if verdict.status != "not done yet":
            problems.append(f"{stub.__doc__} is {verdict.status} and should be not done yet: {verdict.message}")
    if not exercise.wrong_answers:
        problems.append("there are no wrong answers to prove the check with")
    for wrong in exercise.wrong_answers:
        verdict = judge(exercise, wrong.function)
        if verdict.status != "wrong":
            problems.append(f"the wrong answer {wrong.name!r} is {verdict.status}: {verdict.message}")
        elif wrong.expect_in_message not in verdict.message:
            problems.append(
                f"the wrong answer {wrong.name!r} is rejected without {wrong.expect_in_message!r}: {verdict.message}"
            )
    return problems


class _Watched:
    """The student's function as the check sees it; remembers what a check might catch and hide."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.returned_none = False
        self.error: Exception | None = None
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self.function(*args, **kwargs)
        except Exception as error:
            self.error = error
            raise
        self.returned_none = self.returned_none or result is None
        return result


def _raising_stub(*args: Any, **kwargs: Any) -> Any:
    """a stub that raises NotImplementedError"""
    raise NotImplementedError


def _empty_stub(*args: Any, **kwargs: Any) -> Any:
    """a stub that returns None"""


def _not_done(because: str) -> Verdict:
    return Verdict("not done yet", f"Not done yet: {because}.")


def _is_stub(error: Exception, answer: Any) -> bool:
    """Whether the student's own code raised NotImplementedError (torch raises it too, deeper down)."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return isinstance(error, NotImplementedError) and _is_own(frames[-1], answer)


def _explain(error: Exception, answer: Any, inside: bool) -> str:
    """One or two sentences on an exception, without a frame of a library.

    Args:
        error: What was raised.
        answer: The student's function or class.
        inside: Whether it was raised while the student's code ran, rather than by the check afterwards.
    """
    what = code_span(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    line = _own_line(error.__traceback__, answer) if inside else None
    if line is not None:
        return f"{what} in your code, {line}"
    if inside:
        return f"{what}: the call did not fit the parameters of your function."
    return f"The check could not use what your function returned: {what}."


def _own_line(traceback: TracebackType | None, answer: Any) -> str | None:
    """The deepest line of the student's own code on the way to the error."""
    frames = list(walk_tb(traceback))
    # The way to the student's function leads through the check, which is not the student's even in the same
    # file.
    calls = [i for i, (frame, _) in enumerate(frames) if frame.f_code is _Watched.__call__.__code__]
    own = [(frame, line) for frame, line in frames[calls[-1] if calls else 0 :] if _is_own(frame, answer)]
    if not own:
        return None
    frame, line = own[-1]
    text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
    return f"line {line} of the cell: {code_span(text)}" if text.strip() else f"line {line} of the cell."


def _is_own(frame: FrameType, answer: Any) -> bool:
    """Whether a frame is the student's code: in the file of the answer, or in another cell."""
    file = frame.f_code.co_filename
    own = _file_of(answer)
    # ipykernel gives each cell a file name of its own, in one folder for each kernel.
    return file == own or ("ipykernel_" in file and os.path.dirname(file) == os.path.dirname(own))


def _file_of(answer: Any) -> str:
    answer = inspect.unwrap(answer)
    if inspect.isclass(answer):
        codes = [member.__code__ for member in vars(answer).values() if inspect.isfunction(member)]
        return codes[0].co_filename if codes else ""
    code = getattr(answer, "__code__", None) or getattr(getattr(answer, "func", None), "__code__", None)
    return code.co_filename if code is not None else ""
