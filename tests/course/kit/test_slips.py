"""An author's slip is refused with a sentence that names the item, before a student meets it."""

import pytest

from course.kit import Choice, exercise, predict, predict_number, quiz
from course.kit.answers import ANSWERS

OPTIONS = ["it grows", "it shrinks"]
CHOICES = [Choice("a", right=True), Choice("b", why="no.")]


@pytest.mark.parametrize("key", ["loss", "7-loss", "07_loss", "07-", "007-loss", "07-my loss", "", 7, None])
@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda key: predict(key, "?", OPTIONS), "prediction"),
        (lambda key: predict_number(key, "?"), "prediction"),
        (lambda key: quiz(key, "?", CHOICES), "quiz"),
    ],
)
def test_a_key_without_its_lesson_is_refused(attended, ask, kind, key):
    with pytest.raises(
        ValueError, match=f"The {kind} key {key!r} must start with the two digits of its lesson and '-'"
    ):
        ask(key)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: predict("07-q", "?", [1, 2]), "'07-q': the option 1 is 1, a int; write it as text"),
        (lambda: predict("07-q", "?", ["a", None]), "the option None is None, a NoneType"),
        (lambda: predict("07-q", "?", ["a", " "]), "the option ' ' is empty"),
        (lambda: predict("07-q", "?", "grows or shrinks"), "the options are the one text 'grows or shrinks'"),
        (lambda: predict("07-q", 3, OPTIONS), "the question is 3, a int"),
        (lambda: predict("07-q", "", OPTIONS), "the question is empty"),
        (lambda: predict("07-q", "?", OPTIONS, stated=1), "`stated` is 1, a int; write it as text"),
        (lambda: predict_number("07-q", "?", stated="48"), "`stated` '48' is not a number"),
        (lambda: predict_number("07-q", "?", stated=True), "`stated` True is not a number"),
        (lambda: predict_number("07-q", ["?"]), "the question is"),
        (lambda: quiz("07-q", None, CHOICES), "Quiz '07-q': the question is None"),
        (lambda: quiz("07-q", "?", ["a", "b"]), r"the choice 'a' is a str; write Choice\(...\)"),
        (lambda: quiz("07-q", "?", [Choice(1, right=True), Choice("b", why="no.")]), "the choice 1 is 1, a int"),
    ],
)
def test_what_is_no_text_or_no_number_is_refused(attended, ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask()


def asks():
    return {
        "prediction": lambda: predict("07-update", "?", OPTIONS),
        "quiz": lambda: quiz("07-update", "?", CHOICES),
        "exercise": lambda: exercise("07-update"),
    }


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in asks() for b in asks() if a != b], ids=lambda kind: kind)
def test_a_key_that_names_items_of_two_kinds_is_refused(attended, first, second):
    asks()[first]()
    asks()[first]()  # a cell may run again
    with pytest.raises(ValueError, match=f"'07-update' names one item of kind {first} and one of kind {second}"):
        asks()[second]()
    assert ANSWERS.get("07-update") is None
