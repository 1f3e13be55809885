"""Questions come back 1, 3 and 7 lessons later, another one each time, those answered wrong before first."""

import json
import sys

import pytest

from course.kit import recall
from course.kit.answers import Entry
from course.kit.lessons import lesson_numbers, lesson_title
from course.kit.quizzes import Quiz
from course.kit.recall import LIMIT, Choice, RecallItem, due_items, find_recall_items, occasion

MODULE = sys.modules["course.kit.recall"]  # course.kit.recall itself is the function

LESSONS = ("01", "02", "03", "05", "07", "08", "09", "10", "11", "12")


def item(key, right="yes"):
    return RecallItem(key, f"What about {key}?", (Choice(right, right=True, why="so."), Choice("no", why="not so.")))


BANKS = {lesson: tuple(item(f"{lesson}-{name}") for name in "abcd") for lesson in LESSONS}


def keys(lesson, recorded=(), banks=BANKS):
    return [each.key for each in due_items(lesson, LESSONS, banks, dict(recorded))]


def answered(lesson, key, wrong=0):
    return {f"{lesson}-again-{key}": Entry("recall", "x", right=True, wrong=wrong)}


def test_an_item_comes_back_1_3_and_7_lessons_later_in_the_order_of_the_lessons_that_exist():
    asked_in = {lesson: [key for key in keys(lesson) if key.startswith("02-")] for lesson in LESSONS}
    # 04 and 06 do not exist, so one lesson after 02 is 03, three are 07, seven are 11.
    assert {lesson: found for lesson, found in asked_in.items() if found} == {
        "03": ["02-a", "02-b"],
        "07": ["02-c"],
        "11": ["02-d"],
    }


def test_a_lesson_asks_four_items_at_most_and_the_nearest_lesson_first():
    assert keys("01") == []
    assert keys("02") == ["01-a", "01-b"]
    assert keys("11") == ["10-a", "10-b", "08-c", "02-d"]
    everything_wrong = {
        key: entry
        for lesson in LESSONS
        for bank in BANKS.values()
        for each in bank
        for key, entry in answered(lesson, each.key, wrong=1).items()
    }
    assert all(len(keys(lesson, everything_wrong)) <= LIMIT for lesson in LESSONS)


def test_a_short_bank_comes_round_again():
    banks = {"02": BANKS["02"][:3]}
    assert [keys(lesson, banks=banks) for lesson in ("03", "07", "11")] == [["02-a", "02-b"], ["02-c"], ["02-a"]]
    banks = {"02": BANKS["02"][:1]}
    assert [keys(lesson, banks=banks) for lesson in ("03", "07", "11")] == [["02-a"]] * 3


def test_what_was_answered_wrong_before_comes_first():
    recorded = answered("03", "02-b", wrong=1)
    assert keys("07", recorded) == ["02-b", "05-a", "05-b"]
    # Right at the first go the next time, it is no longer ahead of its turn.
    assert keys("11", recorded | answered("07", "02-b")) == keys("11")
    assert keys("11", recorded | answered("07", "02-b", wrong=2))[0] == "02-b"


def test_room_that_is_left_goes_to_further_items_answered_wrong():
    recorded = answered("03", "02-a", wrong=1) | answered("03", "02-b", wrong=1)
    assert keys("07", recorded) == ["02-a", "02-b", "05-a", "05-b"]


def test_what_was_asked_stays_when_the_lesson_is_opened_again():
    here = answered("07", "02-c") | answered("07", "05-a", wrong=1)
    assert keys("07", here) == keys("07")
    # Lesson 3 was worked after lesson 7: what was answered in 7 is still there.
    assert "02-c" in keys("07", here | answered("03", "02-b", wrong=1))
    assert "02-d" in keys("11", answered("11", "02-d") | answered("07", "02-b", wrong=1))


@pytest.fixture
def course(monkeypatch, tmp_path):
    """A course of ten lessons, each with its bank."""
    package = write_banks(tmp_path, monkeypatch, "ten_banks", {f"lesson{number}": BANK % number for number in LESSONS})
    monkeypatch.setattr(MODULE, "lesson_numbers", lambda: LESSONS)
    monkeypatch.setattr(MODULE, "find_recall_items", lambda: find_recall_items(package, LESSONS))


BANK = """
from course.kit.recall import Choice, RecallItem
LESSON = "%s"
CHOICES = (Choice("yes", right=True, why="so."), Choice("no", why="not so."))
ITEMS = tuple(RecallItem(f"{LESSON}-{name}", f"What about {name}?", CHOICES) for name in "abcd")
"""


def write_banks(tmp_path, monkeypatch, name, modules):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_unattended_the_items_stand_with_folded_answers_the_same_in_every_run(course, unattended, capsys):
    recall("11")
    first = capsys.readouterr().out
    recall("11")
    assert capsys.readouterr().out == first
    assert first.startswith("**Recall.** Four questions from earlier lessons.")
    assert first.count("<details>") == 4
    for number in (10, 8, 2):
        assert f"**From lesson {number}.** What about" in first
    question, _, answer = first.partition("<details>")
    assert "- **A.** yes" in question and "so." not in question and "**A.** so." in answer


def test_attended_each_item_is_a_widget_that_keeps_its_answer_for_this_lesson_only(
    course, work, restart_kernel, monkeypatch, capsys
):
    shown = []
    monkeypatch.setattr(Quiz, "show", lambda self, show=Quiz.show: (shown.append(self), show(self)))
    recall("03")
    assert "<details>" not in capsys.readouterr().out
    first = shown[0]
    assert {"course-kit", "course-recall"} <= set(first.box._dom_classes)
    first.radio.value = 1
    first.button.click()
    assert "Not B." in first.feedback.value
    entry = json.loads((work / "progress.json").read_text())["lessons"]["03"]["03-again-02-a"]
    assert {"kind": "recall", "answer": "no", "right": False, "wrong": 1}.items() <= entry.items()
    restart_kernel()
    shown.clear()
    recall("03")
    assert shown[0].radio.value == 1 and "Not B." in shown[0].feedback.value
    shown.clear()
    recall("07")  # missed, so it comes again, and is a new question there
    assert shown[0].key == "07-again-02-a" and shown[0].radio.value is None


def test_an_unattended_run_does_not_look_at_what_was_missed(course, work, monkeypatch, capsys):
    entry = {"kind": "recall", "answer": "no", "right": False, "wrong": 1}
    (work / "progress.json").write_text(json.dumps({"format": 1, "lessons": {"03": {"03-again-02-a": entry}}}))
    recall("07")
    attended = capsys.readouterr().out
    monkeypatch.setenv("MINIMIND_COURSE_UNATTENDED", "1")
    recall("07")
    unattended = capsys.readouterr().out
    assert attended.index("What about a?") < attended.index("From lesson 5")
    assert "What about c?" in unattended and "What about c?" not in attended


def test_nothing_due_is_said_in_one_sentence(course, unattended, monkeypatch, capsys):
    recall("01")
    assert capsys.readouterr().out == "**Recall.** Nothing to recall here: this is the first lesson.\n"
    monkeypatch.setattr(MODULE, "find_recall_items", dict)
    recall("02")
    assert "no question from an earlier lesson is due" in capsys.readouterr().out


def test_a_lesson_that_does_not_exist_is_refused(course, unattended):
    with pytest.raises(ValueError, match="There is no lesson '04' to recall in; there are 01, 02, 03, 05"):
        recall("04")


GOOD = BANK % "07"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("lesson42", BANK % "42", "lesson42 belongs to lesson 42, which does not exist; there are 01, 02"),
        ("lesson7", GOOD, "lesson7 is not named for a lesson; call it lessonNN"),
        ("lesson07", "", "lesson07 has no tuple ITEMS of RecallItem"),
        ("lesson07", "ITEMS = ('what?',)", "lesson07 has no tuple ITEMS of RecallItem"),
        ("lesson07", BANK % "08", "key '08-a' in .*lesson07 must start with 07"),
        ("lesson07", GOOD.replace("{LESSON}-{name}", "{LESSON}-x"), "key '07-x' stands twice in .*lesson07"),
        ("lesson07", GOOD.replace("{LESSON}-{name}", "{name}"), "recall key 'a' must start with the two digits"),
        ("lesson07", GOOD.replace(', why="not so."', ", right=True"), "'07-a' marks 2 choices as right"),
        ("lesson07", GOOD.replace(', why="not so."', ""), "the wrong choice 'no' has no why"),
        ("lesson07", GOOD.replace('"no"', "1"), "Recall '07-a': the choice 1 is 1, a int"),
    ],
)
def test_a_bad_bank_is_refused(tmp_path, monkeypatch, name, text, sentence):
    # A package of its own for each case: Python imports a name once.
    package = write_banks(tmp_path, monkeypatch, f"bank_{tmp_path.name}", {name: text})
    with pytest.raises(ValueError, match=sentence):
        find_recall_items(package, LESSONS)


def test_the_banks_of_the_course_are_sound():
    banks = find_recall_items()
    assert "07" in banks and set(banks) <= set(lesson_numbers())
    for lesson, items in banks.items():
        assert 3 <= len(items) <= 4, f"lesson {lesson} has {len(items)} recall items; three or four come round in time"
        assert all(len(occasion("99", each)) < 64 for each in items)


def test_lessons_are_numbered_and_named_by_their_sources(tmp_path):
    for name, text in (("07-b.md", "---\nx: 1\n---\n\n# 7 · Title\n"), ("03-a.md", "text"), ("README.md", "# No")):
        (tmp_path / name).write_text(text)
    assert lesson_numbers(tmp_path) == ("03", "07")
    assert [lesson_title(number, tmp_path) for number in ("07", "03", "05")] == ["7 · Title", "03", "05"]
