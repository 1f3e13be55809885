"""What the student answered, and whether a student is there at all.

Predictions, quizzes, recall and exercises report here and read back from here. The answers live in the kernel's
memory, and in `progress.json` besides when the kernel was started with a folder for them: `make course` names the
student's folder in the environment variable `MINIMIND_COURSE_WORK`. A run without a person neither reads nor writes it.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from course.kit.progress_file import Answer, Change, Entry, Kind, NewerFormat, ProgressFile, lesson_of
from course.kit.slips import require_key

__all__ = ["ANSWERS", "Answer", "Answers", "Entry", "Kind", "UNATTENDED", "WORK", "unattended", "work_folder"]

UNATTENDED = "MINIMIND_COURSE_UNATTENDED"
WORK = "MINIMIND_COURSE_WORK"


def unattended() -> bool:
    """Says whether the notebook runs without a person, as the build and the notebook tests do.

    Raises:
        ValueError: The environment variable holds something other than 0 or 1.
    """
    value = os.environ.get(UNATTENDED, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"The environment variable {UNATTENDED} is {value!r}; set it to 1, or to 0, or unset it.")
    return value == "1"


def work_folder() -> Path | None:
    """The folder that answers are saved in; None when they are not saved."""
    folder = os.environ.get(WORK, "")
    return Path(folder) if folder and not unattended() else None


class Answers:
    """The answers given, by key."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._kinds: dict[str, Kind] = {}
        self._unsaved: list[Change] = []
        self._read_from: Path | None = None
        self._news: list[str] = []
        self._said: set[str] = set()

    def claim(self, key: str, kind: Kind) -> None:
        """Says that a key names an item of this kind, before anything is answered under it.

        Raises:
            ValueError: The key does not start with a lesson's number, or names an item of another kind.
        """
        require_key(kind, key)
        other = self._kinds.setdefault(key, kind)
        if other != kind:
            raise ValueError(f"The key {key!r} names one item of kind {other} and one of kind {kind}; rename one.")

    def put(self, key: str, answer: Answer, kind: Kind, right: bool | None = None) -> None:
        """Records an answer, over an earlier one, and wakes what waited for it.

        Args:
            key: The item's key.
            answer: What was answered; of an exercise, the verdict.
            kind: The kind of item.
            right: Whether the answer is right, where that is known.
        """
        self._record(key, kind, answer=answer, right=right)
        for call in self._waiting.pop(key, []):
            call()

    def put_outcome(self, key: str, right: bool) -> None:
        """Records whether a committed prediction was right."""
        self._record(key, "prediction", right=right)

    def put_hint(self, key: str, count: int) -> None:
        """Records how many hints of an exercise have been taken."""
        self._record(key, "exercise", hints=count)

    def get(self, key: str) -> Answer | None:
        """The recorded answer, or None."""
        entry = self.entry(key)
        return entry.answer if entry is not None else None

    def entry(self, key: str) -> Entry | None:
        """All that is recorded about an item, or None."""
        self._read()
        return self._entries.get(key)

    def entries(self, *, fresh: bool = False) -> dict[str, Entry]:
        """All that is recorded, by key.

        Args:
            fresh: Look into the file again, for what other kernels wrote since.
        """
        if fresh:
            self._read_from = None
        self._read()
        return dict(self._entries)

    def when_answered(self, key: str, call: Callable[[], None]) -> None:
        """Calls once when the key is answered; at once when it already is."""
        if self.get(key) is not None:
            call()
        else:
            self._waiting.setdefault(key, []).append(call)

    def forget(self, lesson: str) -> Path | None:
        """Forgets a lesson's answers, here and in the file.

        Returns:
            The copy of the old file that was kept; None when it held nothing about this lesson, or cannot be changed
            (then the news say so).
        """
        folder, kept = work_folder(), None
        if folder is not None:
            try:
                kept = ProgressFile(folder, self._say).forget(lesson)
            except (OSError, NewerFormat) as error:
                self._say_unsaved(error)
        self._entries = {key: entry for key, entry in self._entries.items() if lesson_of(key) != lesson}
        self._unsaved = [change for change in self._unsaved if lesson_of(change.key) != lesson]
        return kept

    def news(self) -> str:
        """Sentences for the student that were not shown yet, once; "" when there are none."""
        news, self._news = self._news, []
        return "\n\n".join(news)

    def clear(self) -> None:
        """Forgets everything but the file, as a new kernel does."""
        for everything in (self._entries, self._waiting, self._kinds, self._unsaved, self._news, self._said):
            everything.clear()
        self._read_from = None

    def _record(self, key: str, kind: Kind, **changed: Any) -> None:
        change = Change(key, kind, datetime.now().astimezone().isoformat(timespec="seconds"), **changed)
        old = self.entry(key)
        new = change.applied_to(old)
        if old is not None and replace(new, last=old.last) == old:
            return  # a cell that ran again, and nothing new in it
        self._entries[key] = new
        folder = work_folder()
        if folder is None:
            return
        self._unsaved.append(change)
        try:
            self._entries.update(ProgressFile(folder, self._say).update(self._unsaved))
            self._unsaved.clear()
        except (OSError, NewerFormat) as error:
            self._say_unsaved(error)

    def _read(self) -> None:
        """Reads the file, once for each folder."""
        folder = work_folder()
        if folder is None or folder == self._read_from:
            return
        self._read_from = folder
        try:
            entries = ProgressFile(folder, self._say).read()
        except (OSError, NewerFormat) as error:
            self._say_unsaved(error)
            return
        for change in self._unsaved:
            entries[change.key] = change.applied_to(entries.get(change.key))
        self._entries |= entries

    def _say_unsaved(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._say(
            f"Your answers are not being saved in `{work_folder()}`: {reason}. They hold until this kernel stops."
        )

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._news.append(sentence)


ANSWERS = Answers()
