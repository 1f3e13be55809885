"""The file that keeps a student's progress, and how several kernels share it.

`progress.json` in the student's folder holds, for each lesson and in it for each item, what was answered and when:

    {"format": 1,
     "lessons": {"07": {"07-first-loss": {"kind": "prediction", "answer": "about 8.8", "right": true,
                                          "first": "2026-11-30T10:00:00+01:00", "last": "2026-11-30T10:02:10+01:00"}}}}

A kernel never writes what it remembers, only what has just changed: it locks, reads, changes and replaces the file, so
that two notebooks which are open at once keep each other's answers.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock

Answer = str | float | int | bool
Kind = Literal["prediction", "quiz", "recall", "exercise"]

FORMAT = 1
NAME = "progress.json"
LOCK_LIMIT_S = 5  # a change takes milliseconds; who holds the lock longer has been stopped


class NewerFormat(ValueError):
    """The file was written by a later version of the course; it is left as it is."""


class _Damaged(ValueError):
    """The file is not what the course writes; the message says in what."""


@dataclass(frozen=True)
class Entry:
    """What is known about one item.

    Attributes:
        kind: What kind of item it is.
        answer: The last answer (of an exercise, the last verdict); None when only hints were taken.
        right: Whether the last answer was right; once an exercise is solved it stays solved. None where nobody
            knows yet, as for a prediction whose result was not shown.
        wrong: How often a wrong answer was given.
        hints: How many hints were taken.
        first: When the item was first answered: date, time and offset, ISO 8601.
        last: When anything about it last changed.
    """

    kind: Kind
    answer: Answer | None = None
    right: bool | None = None
    wrong: int = 0
    hints: int = 0
    first: str = ""
    last: str = ""


@dataclass(frozen=True)
class Change:
    """Something that happened to an item; the other fields are as in `Entry`.

    Attributes:
        key: The item's key, which starts with the number of its lesson.
        at: When it happened.
    """

    key: str
    kind: Kind
    at: str
    answer: Answer | None = None
    right: bool | None = None
    hints: int = 0

    def applied_to(self, entry: Entry | None) -> Entry:
        """The entry after this change; an entry of another kind under the same key is begun anew."""
        old = entry if entry is not None and entry.kind == self.kind else Entry(self.kind, first=self.at)
        new = replace(old, hints=max(old.hints, self.hints), last=self.at)
        if self.answer is None:
            return new if self.right is None else replace(new, right=self.right)
        stays_solved = self.kind == "exercise" and old.right
        right = True if stays_solved else self.right
        return replace(new, answer=self.answer, right=right, wrong=old.wrong + (self.right is False))


class ProgressFile:
    """`progress.json` in one folder.

    Args:
        folder: The student's folder.
        say: Takes a sentence for the student.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._say = say

    def read(self) -> dict[str, Entry]:
        """Returns the entries by key; none when there is no file yet.

        A damaged file is moved aside and said.

        Raises:
            OSError: It cannot be read, or not be moved aside.
            NewerFormat: It is of a later version.
        """
        try:
            return self._parsed()
        except _Damaged:
            with self._locked():
                return self._sound()

    def update(self, changes: Sequence[Change]) -> dict[str, Entry]:
        """Applies changes to what the file holds now, writes it, and returns all of its entries.

        Raises:
            OSError: The folder cannot be written, or another process holds the lock.
            NewerFormat: The file is of a later version.
        """
        with self._locked():
            entries = self._sound()
            for change in changes:
                entries[change.key] = change.applied_to(entries.get(change.key))
            self._write(entries)
        return entries

    def forget(self, lesson: str) -> Path | None:
        """Takes a lesson's entries out of the file, and keeps the file as it was beside it.

        Args:
            lesson: Two digits.

        Returns:
            The copy that was kept; None when there was nothing to forget.

        Raises:
            OSError: The folder cannot be written, or another process holds the lock.
            NewerFormat: The file is of a later version.
        """
        with self._locked():
            entries = self._sound()
            left = {key: entry for key, entry in entries.items() if lesson_of(key) != lesson}
            if len(left) == len(entries):
                return None
            kept = self._free_name(f"before-{lesson}")
            shutil.copyfile(self.path, kept)
            self._write(left)
            return kept

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.folder.is_dir():  # the lock would make it
            raise FileNotFoundError(f"there is no folder {self.folder}")
        try:
            lock = FileLock(self.folder / f".{NAME}.lock", timeout=LOCK_LIMIT_S)
            lock.acquire()
        except NotImplementedError as error:  # a file system without locks
            raise OSError(f"{self.folder} lies on a file system without locks") from error
        try:
            yield
        finally:
            lock.release()

    def _sound(self) -> dict[str, Entry]:
        """The entries; a damaged file is moved aside first. Call it with the lock held."""
        try:
            return self._parsed()
        except _Damaged as damage:
            kept = self._free_name("damaged")
            os.replace(self.path, kept)
            self._say(f"`{NAME}` was damaged ({damage}); it is kept as `{kept.name}`, and a new one was begun.")
            return {}

    def _parsed(self) -> dict[str, Entry]:
        try:
            return parse(self.path.read_bytes())
        except FileNotFoundError:
            return {}

    def _free_name(self, label: str) -> Path:
        number = 1
        while (path := self.folder / f"progress.{label}-{number}.json").exists():
            number += 1
        return path

    def _write(self, entries: Mapping[str, Entry]) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=f".{NAME}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(to_text(entries))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            raise


def lesson_of(key: str) -> str:
    """The number of the lesson that a key belongs to."""
    return key[:2]


def to_text(entries: Mapping[str, Entry]) -> str:
    """Writes entries as JSON, lesson by lesson; what has its default value is left out."""
    lessons: dict[str, dict[str, Any]] = {}
    for key in sorted(entries, key=lesson_of):
        entry = entries[key]
        shown = {field.name: getattr(entry, field.name) for field in fields(Entry)}
        kept = {name: value for name, value in shown.items() if name == "kind" or value != _DEFAULTS[name]}
        lessons.setdefault(lesson_of(key), {})[key] = kept
    return json.dumps({"format": FORMAT, "lessons": lessons}, indent=1, ensure_ascii=False) + "\n"


def parse(content: bytes) -> dict[str, Entry]:
    """Reads what `to_text` wrote.

    Raises:
        NewerFormat: It is of a later version.
        ValueError: It is damaged; the message says in what.
    """
    try:
        document = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Damaged("it is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise _Damaged("it is not JSON") from error
    if not isinstance(document, dict) or type(document.get("format")) is not int or document["format"] < 1:
        raise _Damaged("it names no format")
    if document["format"] > FORMAT:
        raise NewerFormat(f"`{NAME}` has format {document['format']}, of a later version of the course")
    lessons = document.get("lessons")
    if not isinstance(lessons, dict) or not all(isinstance(items, dict) for items in lessons.values()):
        raise _Damaged("its lessons are not lists of items by name")
    entries = {}
    for lesson, items in lessons.items():
        for key, item in items.items():
            if not re.fullmatch(r"\d\d", lesson) or not key.startswith(f"{lesson}-"):
                raise _Damaged(f"lesson {lesson!r} holds the item {key!r}")
            entries[key] = _parse_entry(key, item)
    return entries


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Entry)}
_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "answer": (str, float, int, bool),
    "right": (bool,),
    "wrong": (int,),
    "hints": (int,),
    "first": (str,),
    "last": (str,),
}


def _parse_entry(key: str, item: Any) -> Entry:
    if not isinstance(item, dict) or item.get("kind") not in get_args(Kind):
        raise _Damaged(f"the item {key!r} has no known kind")
    for name, value in item.items():
        if type(value) not in _TYPES.get(name, ()):
            raise _Damaged(f"the item {key!r} has {name!r}: {str(value)[:40]!r}")
    return Entry(**item)
