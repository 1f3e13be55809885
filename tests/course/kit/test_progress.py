"""What a student did comes back when the notebook is opened again, and is counted in a table."""

import json

import pytest

from course.build import lab_server as lab_server_module
from course.build.lab_server import lab_server
from course.kit import Choice, exercise, predict, predict_number, progress, quiz, start_over
from course.kit.answers import ANSWERS, UNATTENDED, WORK
from course.kit.exercises import Exercise, Verdict
from course.kit.progress_file import ProgressFile

CHOICES = [Choice("the first", why="it is not."), Choice("the second", right=True, why="it is.")]
OPTIONS = ["it grows", "it shrinks"]


def check(function):
    return Verdict.correct("It matters.") if function(2) == 4 else Verdict.wrong("that is not twice two.")


DOUBLE = Exercise("07-double", "Double", "Write `double`.", check, lambda x: 2 * x, (), ("Multiply.", "By two."))


@pytest.fixture(autouse=True)
def one_exercise(monkeypatch):
    monkeypatch.setattr("course.kit.exercise_cards.find_exercises", lambda: {"07-double": DOUBLE})


def saved(work):
    return json.loads((work / "progress.json").read_text(encoding="utf-8"))["lessons"]


def commit(prediction, value):
    prediction.input.value = value
    prediction.button.click()


def answer(item, place):
    item.radio.value = place
    item.button.click()


def work_through_lesson_7():
    """One prediction right, one wrong, two quiz items of which one is right, one exercise with a hint."""
    guess = predict("07-loss", "What does the loss do?", OPTIONS)
    commit(guess, 1)
    guess.reveal("table", answer="it shrinks")
    count = predict_number("07-count", "How many?", unit="tokens")
    commit(count, "48")
    count.reveal(None, answer=94)
    answer(quiz("07-quiz", "Which?", CHOICES), 1)
    answer(quiz("07-quiz-2", "Which then?", CHOICES), 0)
    exercise("07-double").show()
    exercise("07-double").button.click()
    exercise("07-double").check(lambda x: x + 1)
    exercise("07-double").check(lambda x: 2 * x)


def test_a_committed_prediction_comes_back_and_its_result_is_open(work, restart_kernel, capsys):
    work_through_lesson_7()
    restart_kernel()
    guess = predict("07-loss", "What does the loss do?", OPTIONS)
    assert guess.input.value == 1 and guess.input.disabled and guess.button.disabled
    assert "Committed: <strong>B</strong> (it shrinks)" in guess.feedback.value
    capsys.readouterr()
    guess.reveal("table", answer="it shrinks")
    assert "You predicted **B** (it shrinks); the run gave the same" in capsys.readouterr().out
    count = predict_number("07-count", "How many?", unit="tokens")
    assert count.input.value == "48" and count.button.disabled


def test_a_quiz_answer_comes_back_with_its_reason(work, restart_kernel):
    work_through_lesson_7()
    restart_kernel()
    right, wrong = quiz("07-quiz", "Which?", CHOICES), quiz("07-quiz-2", "Which then?", CHOICES)
    assert right.radio.value == 1 and "Right." in right.feedback.value and "it is." in right.feedback.value
    assert wrong.radio.value == 0 and "Not A." in wrong.feedback.value
    assert quiz("07-quiz-3", "New?", CHOICES).radio.value is None


def test_an_answer_that_is_no_choice_any_more_does_not_come_back(work, restart_kernel):
    work_through_lesson_7()
    restart_kernel()
    item = quiz("07-quiz", "Which?", [Choice("the third", right=True), Choice("the first", why="no.")])
    assert item.radio.value is None and item.feedback.value == ""
    assert predict("07-loss", "?", ["up", "down"]).button.disabled is False


def test_a_solved_exercise_and_its_hints_come_back(work, restart_kernel, capsys):
    work_through_lesson_7()
    restart_kernel()
    card = exercise("07-double")
    card.show()
    assert "You have solved this exercise" in card.state.value
    assert [child.value for child in card.hints.children] == ["<p><strong>Hint 1 of 2.</strong> Multiply.</p>"]
    card.button.click()
    assert len(card.hints.children) == 2 and card.button.disabled
    capsys.readouterr()

    def stub(x):
        raise NotImplementedError

    card.check(stub)  # as the cells of a notebook do that was not saved
    assert "(You have solved this exercise.)" in capsys.readouterr().out
    assert saved(work)["07"]["07-double"]["answer"] == "correct"


def test_an_exercise_that_is_not_solved_does_not_say_so(work):
    exercise("07-double").show()
    exercise("07-double").check(lambda x: x)
    assert exercise("07-double").state.value == ""
    exercise("07-double").check(lambda x: 2 * x)
    assert "You have solved" in exercise("07-double").state.value


def test_everything_is_saved_with_its_kind_its_lesson_and_its_dates(work):
    work_through_lesson_7()
    items = saved(work)["07"]
    assert [(key, item["kind"], item.get("right")) for key, item in items.items()] == [
        ("07-loss", "prediction", True),
        ("07-count", "prediction", False),
        ("07-quiz", "quiz", True),
        ("07-quiz-2", "quiz", False),
        ("07-double", "exercise", True),
    ]
    assert items["07-double"]["hints"] == 1 and items["07-count"]["answer"] == 48
    assert all(item["first"][:2] == "20" and item["last"] >= item["first"] for item in items.values())


def test_running_cells_again_writes_nothing_new(work, restart_kernel, monkeypatch):
    work_through_lesson_7()
    restart_kernel()
    writes = []
    monkeypatch.setattr(ProgressFile, "_write", lambda self, entries: writes.append(entries))
    predict("07-loss", "What does the loss do?", OPTIONS).reveal("table", answer="it shrinks")
    quiz("07-quiz", "Which?", CHOICES)
    exercise("07-double").check(lambda x: 2 * x)
    assert writes == []
    answer(quiz("07-quiz", "Which?", CHOICES), 0)
    assert len(writes) == 1


def test_each_answer_is_counted_once(work):
    item = quiz("07-quiz", "Which?", CHOICES)
    answer(item, 0)
    answer(item, 0)
    answer(item, 1)
    assert saved(work)["07"]["07-quiz"]["wrong"] == 2


def test_the_answers_of_another_kernel_are_kept_and_seen(work, restart_kernel):
    answer(quiz("07-quiz", "Which?", CHOICES), 1)
    other = json.loads((work / "progress.json").read_text())
    other["lessons"]["08"] = {"08-quiz": {"kind": "quiz", "answer": "the second", "right": True}}
    (work / "progress.json").write_text(json.dumps(other))
    answer(quiz("07-quiz-2", "Which then?", CHOICES), 1)
    assert set(saved(work)) == {"07", "08"}
    assert quiz("08-quiz", "Which?", CHOICES).radio.value == 1


def test_the_table_counts_what_another_kernel_wrote_since(work, capsys):
    answer(quiz("07-quiz", "Which?", CHOICES), 1)
    other = json.loads((work / "progress.json").read_text())
    other["lessons"]["08"] = {"08-quiz": {"kind": "quiz", "answer": "the second", "right": True}}
    (work / "progress.json").write_text(json.dumps(other))
    capsys.readouterr()
    progress()
    assert capsys.readouterr().out.count("1 of 1") == 2


def test_without_a_folder_answers_live_in_memory_and_nothing_is_said(attended, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    work_through_lesson_7()
    assert quiz("07-quiz", "Which?", CHOICES).radio.value == 1
    assert list(tmp_path.iterdir()) == [] and "sav" not in capsys.readouterr().out


def test_an_unattended_run_neither_reads_nor_writes(work, restart_kernel, monkeypatch, capsys):
    work_through_lesson_7()
    before = (work / "progress.json").read_bytes()
    restart_kernel()
    (work / ".progress.json.lock").unlink()
    monkeypatch.setenv(UNATTENDED, "1")
    capsys.readouterr()
    predict("07-loss", "What does the loss do?", OPTIONS).reveal("table", answer="it shrinks")
    exercise("07-double").check(lambda x: 2 * x)
    exercise("07-double").hint()
    progress()
    start_over("07")
    shown = capsys.readouterr().out
    assert "answered **A** (it grows)" in shown and "Hint 1 of 2" in shown
    assert "this run has no student" in shown
    assert [path.name for path in work.iterdir()] == ["progress.json"]  # not even the lock was taken
    assert (work / "progress.json").read_bytes() == before


def test_a_folder_that_cannot_be_written_stops_nothing_and_is_said_once(work, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(WORK, str(tmp_path / "gone"))
    item = quiz("07-quiz", "Which?", CHOICES)
    answer(item, 0)
    assert "Not A." in item.feedback.value
    assert item.feedback.value.count("Your answers are not being saved in") == 1
    work_through_lesson_7()
    assert "not being saved" not in capsys.readouterr().out
    assert ANSWERS.get("07-quiz") == "the second"


@pytest.mark.parametrize("act", ["commit", "hint", "check"])
def test_wherever_saving_fails_first_it_is_said_there(work, monkeypatch, tmp_path, capsys, act):
    monkeypatch.setenv(WORK, str(tmp_path / "gone"))
    card = exercise("07-double")
    card.show()
    guess = predict("07-loss", "?", OPTIONS)
    if act == "commit":
        commit(guess, 0)
        assert "not being saved" in guess.feedback.value
    elif act == "hint":
        card.button.click()
        assert "not being saved" in card.state.value
    else:
        card.check(lambda x: x)
        assert "not being saved" in capsys.readouterr().out


def test_what_could_not_be_saved_is_saved_when_the_folder_is_back(work, monkeypatch, tmp_path):
    late = tmp_path / "late"
    monkeypatch.setenv(WORK, str(late))
    answer(quiz("07-quiz", "Which?", CHOICES), 1)
    late.mkdir()
    answer(quiz("07-quiz-2", "Which then?", CHOICES), 0)
    assert list(saved(late)["07"]) == ["07-quiz", "07-quiz-2"]


def test_a_damaged_file_is_said_under_the_first_item(work, capsys):
    (work / "progress.json").write_text("{")
    quiz("07-quiz", "Which?", CHOICES)
    assert capsys.readouterr().out.count("was damaged (it is not JSON)") == 1
    quiz("07-quiz", "Which?", CHOICES)
    assert "damaged" not in capsys.readouterr().out
    assert (work / "progress.damaged-1.json").read_text() == "{"


def test_the_table_counts_each_kind_lesson_by_lesson(work, capsys):
    work_through_lesson_7()
    answer(quiz("08-quiz", "Which?", CHOICES), 1)
    capsys.readouterr()
    progress()
    lines = capsys.readouterr().out.splitlines()
    header, _, seven, eight = [line for line in lines if line.startswith("|")]
    assert [cell.strip() for cell in header.split("|")[1:-1]] == [
        *("lesson", "predictions made", "of these right", "quiz right", "recall right"),
        *("exercises solved", "hints taken"),
    ]
    assert [cell.strip() for cell in seven.split("|")[2:-1]] == ["2", "1", "1 of 2", "-", "1", "1"]
    assert [cell.strip() for cell in eight.split("|")[2:-1]] == ["0", "0", "1 of 1", "-", "0", "0"]
    assert "7 · The pretraining entry" in seven
    assert "Saved in `work/progress.json`" in lines[-1]


def test_the_table_without_answers_and_without_a_folder_says_so(attended, capsys):
    progress()
    shown = capsys.readouterr().out
    assert "Nothing is answered yet." in shown and "Kept until this kernel stops" in shown


def test_a_lesson_started_over_is_new_and_the_old_file_is_kept(work, restart_kernel, capsys):
    work_through_lesson_7()
    answer(quiz("08-quiz", "Which?", CHOICES), 1)
    before = (work / "progress.json").read_bytes()
    capsys.readouterr()
    start_over("07")
    shown = capsys.readouterr().out
    assert "Lesson 07 starts over" in shown and "`progress.before-07-1.json`" in shown
    assert (work / "progress.before-07-1.json").read_bytes() == before
    for _ in range(2):  # in this kernel, and in the next
        assert quiz("07-quiz", "Which?", CHOICES).radio.value is None
        assert not predict("07-loss", "?", OPTIONS).button.disabled
        exercise("07-double").show()
        assert exercise("07-double").hints.children == () and exercise("07-double").state.value == ""
        assert quiz("08-quiz", "Which?", CHOICES).radio.value == 1
        restart_kernel()


def test_starting_over_what_was_not_begun_or_is_no_lesson_says_so(work, capsys):
    start_over("07")
    assert "Nothing was answered in lesson 07 yet." in capsys.readouterr().out
    assert not (work / "progress.json").exists()
    with pytest.raises(ValueError, match="two digits of a lesson"):
        start_over("7")


def test_the_lab_server_names_the_students_folder_to_its_kernels(tmp_path, monkeypatch):
    class Started(Exception):
        pass

    environments = []

    def popen(_command, env, **_):
        environments.append(env)
        raise Started

    monkeypatch.setattr(lab_server_module.subprocess, "Popen", popen)
    with pytest.raises(Started), lab_server(tmp_path):
        pass
    assert environments[0][WORK] == str(tmp_path.resolve())
