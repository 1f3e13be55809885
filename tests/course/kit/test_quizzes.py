import pytest

from course.kit import Choice, quiz
from course.kit.answers import ANSWERS

CHOICES = [
    Choice("the first `label`", why="the model never sees what comes before it."),
    Choice("the next token", right=True, why="that is what it is asked for."),
    Choice("the same token", why="it could copy its input."),
]


def test_attended_the_page_holds_no_answer(attended, capsys):
    item = quiz("07-q", "What does position 3 predict?", CHOICES)
    shown = capsys.readouterr().out + "".join(str(getattr(child, "value", "")) for child in item.box.children)
    assert "the next token" in shown
    assert "asked for" not in shown and "copy its input" not in shown and "<details>" not in shown


def test_a_wrong_choice_gets_its_own_reason_and_may_try_again(attended):
    item = quiz("07-q", "What does position 3 predict?", CHOICES)
    item.button.click()
    assert "Choose one of the answers first" in item.feedback.value
    item.radio.value = 2
    item.button.click()
    assert "Not C." in item.feedback.value and "it could copy its input" in item.feedback.value
    assert "course-wrong" in item.feedback.value and "asked for" not in item.feedback.value
    item.radio.value = 1
    item.button.click()
    assert "Right." in item.feedback.value and "that is what it is asked for" in item.feedback.value
    assert "course-right" in item.feedback.value
    assert ANSWERS.get("07-q") == "the next token"


def test_labels_of_radio_buttons_have_no_markup(attended):
    assert quiz("07-q", "?", CHOICES).radio.options[0] == ("A. the first label", 0)


def test_unattended_the_answer_is_folded_under_the_question(unattended, capsys):
    quiz("07-q", "What does position 3 predict?", CHOICES)
    question, _, answer = capsys.readouterr().out.partition("<details>")
    assert "- **A.** the first `label`" in question and "asked for" not in question
    assert "**B.** that is what it is asked for" in answer
    assert "**Not C.** it could copy its input." in answer


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ([Choice("a", right=True)], "at least two"),
        ([Choice("a", right=True), Choice("a", why="no")], "no two of them equal"),
        ([Choice("a", why="no"), Choice("b", why="no")], "marks 0 choices as right"),
        ([Choice("a", right=True), Choice("b", right=True)], "marks 2 choices as right"),
        ([Choice("a", right=True), Choice("b")], "the wrong choice 'b' has no why"),
    ],
)
def test_a_mistake_of_the_author_is_a_sentence(attended, choices, sentence):
    with pytest.raises(ValueError, match=sentence):
        quiz("07-q", "?", choices)
