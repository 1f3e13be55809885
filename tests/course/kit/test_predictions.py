import pytest

from course.kit import predict, predict_number
from course.kit.answers import ANSWERS
from course.kit.predictions import WAITING, parse_number

OPTIONS = ["it grows", "it **shrinks**"]


def area_text(prediction):
    return " ".join(child.value for child in prediction.area.children if isinstance(child.value, str))


def test_nothing_is_computed_or_shown_before_the_commit(attended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)
    calls = []
    guess.reveal(lambda: calls.append("computed") or "secret table", answer="it **shrinks**")
    shown = capsys.readouterr().out
    assert WAITING in shown and "secret" not in shown and "the run gave" not in shown
    assert calls == []
    assert WAITING in area_text(guess)
    guess.button.click()  # nothing chosen yet
    assert calls == [] and ANSWERS.get("07-q") is None
    assert "Choose one of the answers first" in guess.feedback.value


def test_commit_fills_the_waiting_result_with_the_prediction_beside_it(attended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)

    def work():
        print("printed by the run")
        return "the **table**"

    guess.reveal(work, answer="it **shrinks**")
    capsys.readouterr()
    guess.input.value = 0
    guess.button.click()
    text = area_text(guess)
    assert "printed by the run" in text and "table" in text
    assert "You predicted <strong>A</strong> (it grows); the run gave <strong>B</strong>" in text
    assert "different" in text
    assert guess.button.disabled and guess.input.disabled
    assert ANSWERS.get("07-q") == "it grows"
    assert capsys.readouterr().out == ""  # nothing was printed where no cell would show it


def test_a_result_after_the_commit_is_shown_at_once(attended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)
    guess.input.value = 1
    guess.button.click()
    guess.reveal("the table", answer=lambda shown: "it **shrinks**" if shown == "the table" else "it grows")
    shown = capsys.readouterr().out
    assert "the table" in shown and "You predicted **B** (it **shrinks**); the run gave the same: **right ✓**." in shown


def test_a_question_asked_again_keeps_the_committed_answer(attended):
    first = predict("07-q", "What does the loss do?", OPTIONS)
    first.input.value = 1
    first.button.click()
    again = predict("07-q", "What does the loss do?", OPTIONS)
    assert again.input.value == 1 and again.button.disabled


def test_a_commit_in_a_newer_copy_of_the_question_opens_the_older_reveal(attended):
    old = predict("07-q", "What?", OPTIONS)
    old.reveal("the table", answer="it grows")
    new = predict("07-q", "What?", OPTIONS)
    new.input.value = 0
    new.button.click()
    assert "the table" in area_text(old)


def test_an_error_of_the_run_is_said_and_not_lost(attended):
    guess = predict("07-q", "What?", OPTIONS)
    guess.reveal(lambda: 1 / 0, answer="it grows")
    guess.input.value = 0
    guess.button.click()
    assert "ZeroDivisionError: division by zero" in area_text(guess)


def test_unattended_the_question_the_answer_and_the_result_stand_in_the_page(unattended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)
    shown = capsys.readouterr().out
    assert "What does the loss do?" in shown and "- **B.** it **shrinks**" in shown
    assert "Unattended run: answered **A** (it grows)." in shown
    guess.reveal(lambda: "the table", answer="it **shrinks**")
    shown = capsys.readouterr().out
    assert "the table" in shown
    assert "The unattended run predicted **A** (it grows); the run gave **B** (it **shrinks**): **different**" in shown


def test_the_unattended_answer_can_be_stated(unattended, capsys):
    predict("07-q", "What?", OPTIONS, stated="it **shrinks**")
    assert "answered **B**" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("predicted", "given", "words"),
    [
        (48, 48, "right ✓"),
        (47, 48, "close, a little too low"),
        (6390, 6400, "close, a little too low"),  # a count that is not equal is not right
        (480, 48, "different, more than twice too high"),
        (1, 6400, "different, more than 100 times too low"),
        (8.7, 8.765, "right ✓"),
        (8.0, 8.765, "close, a little too low"),
        (-3.0, 8.765, "different, too low"),
        (0.5, 0, "different, too high"),
    ],
)
def test_a_number_is_judged_in_words(attended, predicted, given, words):
    assert predict_number("07-n", "How much?").verdict(predicted, given) == words


def test_a_number_is_typed_with_its_unit(attended, capsys):
    guess = predict_number("07-n", "How many?", unit="tokens")
    guess.reveal(None, answer=48)
    guess.input.value = "many"
    guess.button.click()
    assert "Type one number first" in guess.feedback.value and not guess.button.disabled
    guess.input.value = "40"
    guess.button.click()
    assert "You predicted <strong>40</strong> tokens; the run gave <strong>48</strong> tokens" in area_text(guess)
    assert "(in tokens)" in capsys.readouterr().out


def test_a_scalar_tensor_is_a_number(unattended, capsys):
    import torch

    predict_number("07-n", "How much?", stated=9).reveal(None, answer=torch.tensor(8.5))
    assert "answered **9**" in (shown := capsys.readouterr().out) and "gave **8.5**" in shown


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (" 48 ", 48),
        ("63,912,192", 63912192),
        ("6_400", 6400),
        ("63 912 192", 63912192),
        ("3e-4", 3e-4),
        ("−1.5", -1.5),
        ("1,234.5", 1234.5),
        ("", None),
        ("1,5", None),
        ("nan", None),
        ("inf", None),
        ("9 nats", None),
    ],
)
def test_numbers_are_read_as_people_type_them(typed, value):
    assert parse_number(typed) == value


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: predict("07-q", "?", ["one"]), "give at least two"),
        (lambda: predict("07-q", "?", ["one", "one"]), "no two of them equal"),
        (lambda: predict("07-q", "?", OPTIONS, stated="three"), "'three' is none of the options"),
        (lambda: predict("07-q", "?", OPTIONS).reveal(1, answer="three"), "'three' is none of the options"),
        (lambda: predict_number("07-q", "?").reveal(1, answer="three"), "'three' is not a number"),
    ],
)
def test_a_mistake_of_the_author_is_a_sentence(attended, ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask()


def test_the_widget_carries_its_css_class(attended):
    assert {"course-kit", "course-predict"} <= set(predict("07-q", "?", OPTIONS).box._dom_classes)


def test_the_explanation_waits_behind_the_gate_too(attended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)
    guess.reveal("table", answer="it **shrinks**", then="Because it learns.")
    assert "Because" not in capsys.readouterr().out + area_text(guess)
    guess.input.value = 1
    guess.button.click()
    assert "Because it learns." in area_text(guess)


def test_an_unattended_run_shows_the_explanation(unattended, capsys):
    guess = predict("07-q", "What does the loss do?", OPTIONS)
    guess.reveal("table", answer="it **shrinks**", then="Because it learns.")
    assert "Because it learns." in capsys.readouterr().out
