"""The file on disk: readable, never half written, never lost, and shared by kernels."""

import json
import os
import subprocess
import sys

import pytest
from filelock import FileLock

from course.kit import progress_file
from course.kit.progress_file import Change, Entry, NewerFormat, ProgressFile, parse, to_text

AT = "2026-11-30T10:00:00+01:00"


def quiz_change(key="07-quiz", answer="yes", right=True, at=AT):
    return Change(key, "quiz", at, answer=answer, right=right)


@pytest.fixture
def said():
    return []


@pytest.fixture
def file(tmp_path, said):
    return ProgressFile(tmp_path, said.append)


def test_the_file_is_json_that_a_person_can_read(file):
    file.update([quiz_change(), Change("03-cut", "prediction", AT, answer=0.25)])
    text = file.path.read_text(encoding="utf-8")
    assert json.loads(text) == {
        "format": 1,
        "lessons": {
            "03": {"03-cut": {"kind": "prediction", "answer": 0.25, "first": AT, "last": AT}},
            "07": {"07-quiz": {"kind": "quiz", "answer": "yes", "right": True, "first": AT, "last": AT}},
        },
    }
    assert len(text.splitlines()) > 10


@pytest.mark.parametrize("answer", ["床前", "", 0, 48, -1.5, 3e-4, 1e20, True, False])
def test_an_answer_comes_back_as_it_was_typed(answer):
    entry = Entry("prediction", answer, right=False, wrong=2, hints=1, first=AT, last=AT)
    back = parse(to_text({"07-a": entry}).encode())["07-a"]
    assert back == entry and type(back.answer) is type(answer)


def test_the_dates_of_the_first_answer_and_of_the_last_change_are_kept(file):
    file.update([quiz_change(answer="no", right=False)])
    later = "2026-12-01T08:00:00+01:00"
    (entry,) = file.update([quiz_change(at=later)]).values()
    assert (entry.first, entry.last, entry.right, entry.wrong) == (AT, later, True, 1)


def test_a_solved_exercise_stays_solved_and_hints_never_go_back():
    entry = None
    for change in (
        Change("07-a", "exercise", AT, hints=2),
        Change("07-a", "exercise", AT, answer="correct", right=True),
        Change("07-a", "exercise", AT, answer="wrong", right=False),
        Change("07-a", "exercise", AT, hints=1),
    ):
        entry = change.applied_to(entry)
    assert (entry.answer, entry.right, entry.hints, entry.wrong) == ("wrong", True, 2, 1)


def test_a_key_that_became_an_item_of_another_kind_is_begun_anew():
    old = Entry("exercise", "correct", right=True, hints=3)
    assert quiz_change(right=False).applied_to(old) == Entry("quiz", "yes", right=False, wrong=1, first=AT, last=AT)


WRITER = """
import sys
from pathlib import Path
from course.kit.progress_file import Change, ProgressFile
folder, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    change = Change(f"07-{name}{number}", "quiz", "now", answer=name, right=True)
    ProgressFile(Path(folder), print).update([change, Change("07-both", "exercise", "now", hints=number)])
"""


def test_two_kernels_that_write_at_once_lose_no_answer(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0] for process in processes] == ["", ""]
    entries = parse((tmp_path / "progress.json").read_bytes())
    assert len(entries) == 81 and entries["07-both"].hints == 39
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["progress.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_half_one(file, monkeypatch, step):
    file.update([quiz_change()])
    before = file.path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        file.update([quiz_change("07-other")])
    monkeypatch.undo()
    assert file.path.read_bytes() == before
    assert {path.name for path in file.folder.iterdir()} <= {"progress.json", ".progress.json.lock"}
    assert len(file.update([quiz_change("07-other")])) == 2  # and the lock was given back


@pytest.mark.parametrize(
    ("content", "in_what"),
    [
        (b"", "not JSON"),
        (b'{"format": 1, "lessons": {"07": {"07-a": {"ki', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[]", "names no format"),
        (b'{"lessons": {}}', "names no format"),
        (b'{"format": "1", "lessons": {}}', "names no format"),
        (b'{"format": 1}', "lessons are not lists"),
        (b'{"format": 1, "lessons": {"07": []}}', "lessons are not lists"),
        (b'{"format": 1, "lessons": {"07": {"08-a": {"kind": "quiz"}}}}', "lesson '07' holds the item '08-a'"),
        (b'{"format": 1, "lessons": {"07": {"07-a": 3}}}', "no known kind"),
        (b'{"format": 1, "lessons": {"07": {"07-a": {"kind": "riddle"}}}}', "no known kind"),
        (b'{"format": 1, "lessons": {"07": {"07-a": {"kind": "quiz", "answer": []}}}}', "has 'answer': '[]'"),
        (b'{"format": 1, "lessons": {"07": {"07-a": {"kind": "quiz", "hints": true}}}}', "has 'hints': 'True'"),
        (b'{"format": 1, "lessons": {"07": {"07-a": {"kind": "quiz", "colour": "red"}}}}', "has 'colour': 'red'"),
    ],
)
def test_a_damaged_file_is_kept_aside_said_in_one_sentence_and_a_new_one_begun(file, said, content, in_what):
    file.path.write_bytes(content)
    assert file.read() == {}
    (sentence,) = said
    assert in_what in sentence and "kept as `progress.damaged-1.json`, and a new one was begun." in sentence
    assert (file.folder / "progress.damaged-1.json").read_bytes() == content
    assert list(file.update([quiz_change()])) == ["07-quiz"]
    file.path.write_bytes(content)
    file.update([quiz_change()])
    assert (file.folder / "progress.damaged-2.json").read_bytes() == content
    assert len(said) == 2


def test_a_file_of_a_later_version_is_left_alone(file, said):
    content = b'{"format": 2, "lessons": "elsewhere"}'
    file.path.write_bytes(content)
    for act in (file.read, lambda: file.update([quiz_change()]), lambda: file.forget("07")):
        with pytest.raises(NewerFormat, match="format 2, of a later version"):
            act()
    assert file.path.read_bytes() == content and said == []


def test_who_holds_the_lock_too_long_is_not_waited_for(file, monkeypatch):
    monkeypatch.setattr(progress_file, "LOCK_LIMIT_S", 0.1)
    with FileLock(file.folder / ".progress.json.lock"), pytest.raises(OSError, match="could not be acquired"):
        file.update([quiz_change()])


def test_a_missing_folder_is_not_made(tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        ProgressFile(tmp_path / "gone", print).update([quiz_change()])
    assert not (tmp_path / "gone").exists()


def test_forgetting_a_lesson_keeps_the_others_and_the_old_file(file):
    file.update([quiz_change(), quiz_change("08-quiz"), quiz_change("08-again-07-quiz")])
    before = file.path.read_bytes()
    kept = file.forget("08")
    assert kept.name == "progress.before-08-1.json" and kept.read_bytes() == before
    assert list(file.read()) == ["07-quiz"]
    assert file.forget("08") is None and file.read()
