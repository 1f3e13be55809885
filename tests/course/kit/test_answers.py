import pytest

from course.kit.answers import UNATTENDED, Answers, unattended


def test_what_waits_for_an_answer_is_called_once_when_it_comes():
    answers, calls = Answers(), []
    answers.when_answered("07-q", lambda: calls.append(answers.get("07-q")))
    assert calls == []
    answers.put("07-q", "A", "quiz")
    answers.put("07-q", "B", "quiz")
    assert calls == ["A"]


def test_what_asks_after_the_answer_is_called_at_once():
    answers, calls = Answers(), []
    answers.put("07-q", 0, "prediction")  # an answer that is falsy is an answer
    answers.when_answered("07-q", lambda: calls.append("called"))
    assert calls == ["called"]


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), ("", False)])
def test_unattended_is_said_by_the_environment(monkeypatch, value, expected):
    monkeypatch.setenv(UNATTENDED, value)
    assert unattended() is expected


def test_another_value_of_the_variable_is_refused(monkeypatch):
    monkeypatch.setenv(UNATTENDED, "yes")
    with pytest.raises(ValueError, match="is 'yes'; set it to 1"):
        unattended()
