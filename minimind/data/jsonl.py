"""A file on disk -> checked texts or conversations. Nothing is skipped in silence.

By default a row that cannot be used is an error that names the file, the line, what was found there and
what to do. The lenient mode drops such rows, counts them by reason, and says so.

Two formats: ``.jsonl``, one JSON object on each line with the text (or the list of messages) in one of its fields;
and ``.txt``, documents separated by blank lines. Both must be UTF-8.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from minimind.chat import Message, require_messages

_BOM = b"\xef\xbb\xbf"
_EXCERPT_CHARACTERS = 60

Row = TypeVar("Row")


class DataError(ValueError):
    """A data file that cannot be used as it is; the message says where, why and what to do."""


@dataclass
class JsonlReport(Generic[Row]):
    """What was read from a file.

    Attributes:
        path: the file.
        rows: the usable texts or conversations, in file order.
        read: rows found: lines that are not blank, or blocks of a .txt file.
        blank: blank lines passed over.
        dropped: how many rows were dropped, by reason; empty unless reading leniently.
    """

    path: Path
    rows: list[Row] = dataclasses.field(default_factory=list)
    read: int = 0
    blank: int = 0
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)

    def summary(self) -> str:
        """One sentence: how many rows are used, and how many were dropped and why."""
        used = f"{self.path}: {len(self.rows):,} of {self.read:,} rows used"
        if not self.dropped:
            return f"{used}, none dropped."
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.most_common())
        return f"{used}, {self.dropped.total():,} dropped ({reasons})."


class _Unusable(Exception):
    """Why one row cannot be used."""

    def __init__(self, reason: str, found: str, remedy: str) -> None:
        super().__init__(found)
        self.reason = reason  # short, to count by
        self.found = found  # completes "line 3 ..."
        self.remedy = remedy


def read_texts(path: Path | str, field: str = "text", lenient: bool = False) -> JsonlReport[str]:
    """Read a file of either format, chosen by its name: ``.jsonl`` (or ``.json``) or ``.txt``.

    Raises:
        DataError: when the name is of neither kind, or the file cannot be used.
    """
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder: name one .jsonl or .txt file.")
    suffix = Path(path).suffix.lower()
    if suffix == ".txt":
        return read_text_blocks(path, lenient=lenient)
    if suffix in (".jsonl", ".json"):
        return read_jsonl(path, field=field, lenient=lenient)
    raise DataError(
        f"{path} is named neither .jsonl nor .txt: give a .jsonl file with one JSON object on each line, or "
        "a .txt file with a blank line between documents."
    )


def read_jsonl(path: Path | str, field: str = "text", lenient: bool = False) -> JsonlReport[str]:
    """Read one text from each line of a JSON Lines file.

    A byte order mark at the start, CRLF line ends, blank lines and a missing last line end are accepted.
    Only a line feed ends a line: characters such as U+2028 inside a text do not.

    Args:
        path: the file.
        field: the field that holds the text.
        lenient: drop and count unusable rows instead of refusing the file.

    Raises:
        DataError: for the first row that cannot be used (unless lenient), a file without a usable row, and
            a file that is missing, empty, or not a file.
    """
    return _read(Path(path), _numbered_lines, lambda line: _parse_row(line, field), lenient)


def read_conversations(
    path: Path | str, field: str = "conversations", lenient: bool = False
) -> JsonlReport[list[Message]]:
    """Read one conversation from each line of a JSON Lines file: a list of `{"role": ..., "content": ...}`.

    Args:
        path: the file.
        field: the field that holds the list.
        lenient: drop and count unusable rows instead of refusing the file.

    Raises:
        DataError: as for ``read_jsonl``; a message that is none is named by its place in the list.
    """
    if Path(path).suffix.lower() not in (".jsonl", ".json"):
        raise DataError(f"{path} is not named .jsonl: conversations stand in a file with one JSON object on each line.")
    return _read(Path(path), _numbered_lines, lambda line: _parse_conversation(line, field), lenient)


def read_text_blocks(path: Path | str, lenient: bool = False) -> JsonlReport[str]:
    """Read the documents of a plain text file: blocks of lines with at least one blank line between them.

    Line ends become a line feed; spaces inside a block stay as they are.

    Args:
        path: the file.
        lenient: drop and count blocks that are not UTF-8 instead of refusing the file.

    Raises:
        DataError: as for ``read_jsonl``.
    """
    return _read(Path(path), _numbered_blocks, _decode, lenient)


_Pieces = Callable[[Path, JsonlReport[Any]], Iterator[tuple[int, bytes]]]


def _read(path: Path, pieces: _Pieces, parse: Callable[[bytes], Row], lenient: bool) -> JsonlReport[Row]:
    """Read a file piece by piece, and turn every unusable piece into a drop or an error."""
    report: JsonlReport[Row] = JsonlReport(path)
    for number, piece in pieces(path, report):
        report.read += 1
        try:
            report.rows.append(parse(piece))
        except _Unusable as error:
            if not lenient:
                remedy = (
                    f"{error.remedy}; or drop and count such rows with lenient=1 (on the command line --lenient 1)."
                )
                raise DataError(f"{path}, line {number}: {error.found}. {remedy}") from None
            report.dropped[error.reason] += 1
    if report.rows:
        return report
    if report.read == 0:
        raise DataError(f"{path} has no text in it: give a file with at least one document.")
    raise DataError(f"{path} has no usable row. {report.summary()} Repair the file or choose another.")


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file without their ends and without the byte order mark at the start."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give the path of a file in it.")
    try:
        with path.open("rb") as file:
            # Reading bytes makes "\n" the only line end; text mode would also break lines at a lone "\r".
            for index, line in enumerate(file):
                yield ((line.removeprefix(_BOM) if index == 0 else line).removesuffix(b"\n").removesuffix(b"\r"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: check the path (it is relative to {Path.cwd()}).") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Check the file and its permissions.") from None


def _numbered_lines(path: Path, report: JsonlReport[Any]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; blank ones are counted."""
    for number, line in enumerate(_raw_lines(path), start=1):
        if _is_blank(line):
            report.blank += 1
        else:
            yield number, line


def _numbered_blocks(path: Path, report: JsonlReport[Any]) -> Iterator[tuple[int, bytes]]:
    """Runs of lines that are not blank, each with the number of its first line; blank lines are counted."""
    block: list[bytes] = []
    first = 0
    for number, line in enumerate(_raw_lines(path), start=1):
        if _is_blank(line):
            report.blank += 1
            if block:
                yield first, b"\n".join(block)
            block = []
        else:
            first = first if block else number
            block.append(line)
    if block:
        yield first, b"\n".join(block)


def _is_blank(line: bytes) -> bool:
    """Whether a line shows nothing; an ideographic space (U+3000) shows nothing either."""
    return not line.strip() or not line.decode(errors="replace").strip()


def _decode(raw: bytes) -> str:
    """Bytes -> text, strictly UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            found = f"the line breaks off in the middle of a character: {_excerpt(raw, end=True)}"
            raise _Unusable("cut line", found, "Complete the line, or remove it") from None
        encoding = "UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "another encoding"
        raise _Unusable(
            "not UTF-8",
            f"byte {raw[error.start]:#04x} at place {error.start + 1} is not UTF-8, found in {_excerpt(raw)}",
            f"The file may be in {encoding}: save it as UTF-8",
        ) from None


def _parse_row(line: bytes, field: str) -> str:
    """One line -> the text in its field."""
    text = _decode(line)
    value = _field_of(text, field, '"..."')
    if value is None:
        raise _Unusable("null", f"the field {field!r} is null: {_excerpt(text)}", "Put a text there")
    if not isinstance(value, str):
        found = f"the field {field!r} must be a string, and it is {_kind(value)}: {_excerpt(text)}"
        raise _Unusable("not a string", found, "Put the text in quotes")
    if not value.strip():
        raise _Unusable("empty text", f"the field {field!r} is empty: {_excerpt(text)}", "Put a text there")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Unusable(
            "half a character",
            f"the field {field!r} holds half a surrogate pair, {ascii(value[error.start])}: {_excerpt(text)}",
            "Write the whole character, or both halves",
        ) from None
    return value


def _parse_conversation(line: bytes, field: str) -> list[Message]:
    """One line -> the list of messages in its field."""
    text = _decode(line)
    example = '[{"role": "user", "content": "..."}]'
    messages = _field_of(text, field, example)
    try:
        require_messages(messages)
    except ValueError as error:
        raise _Unusable(
            "no conversation",
            f"field {field!r}: {str(error).removesuffix('.')}: {_excerpt(text)}",
            f"Write it as {example}",
        ) from None
    assert isinstance(messages, list)
    return messages


def _field_of(text: str, field: str, example: str) -> Any:
    """What stands in the field of one JSON object."""
    row = _parse_json(text)
    if not isinstance(row, dict):
        raise _Unusable(
            "not an object",
            f"a row must be a JSON object, and this is {_kind(row)}: {_excerpt(text)}",
            f'Write it as {{"{field}": {example}}}, one object on each line',
        )
    if field not in row:
        present = ", ".join(map(repr, row)) or "none at all"
        raise _Unusable(
            "missing field",
            f"the row has no field {field!r}; its fields are {_shorten(present)}",
            "Add the field, or name the one that holds the text" if example == '"..."' else "Add the field",
        )
    return row[field]


def _parse_json(text: str) -> Any:
    """Strict JSON: no NaN, no field twice."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        at_the_end = error.pos >= len(text.rstrip()) or re.search(r"\\u[0-9a-fA-F]{0,3}$", text)
        if at_the_end or error.msg.startswith("Unterminated string"):
            found = f"the line breaks off before its JSON ends: {_excerpt(text, end=True)}"
            raise _Unusable("cut line", found, "Complete the line, or remove it") from None
        found = f"this is not JSON ({error.msg} at column {error.pos + 1}): {_excerpt(text[error.pos :])}"
        raise _Unusable("not JSON", found, "Write one JSON object on each line") from None
    except RecursionError:
        found = f"the JSON is nested too deeply: {_excerpt(text)}"
        raise _Unusable("not JSON", found, "Write a flat object") from None
    except ValueError:
        # Python refuses to read an integer of thousands of digits.
        found = f"a number has too many digits: {_excerpt(text)}"
        raise _Unusable("not JSON", found, "Shorten it, or put it in quotes") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose fields are all different; plain json keeps the last of two without a word."""
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _Unusable("field twice", f"the field {twice!r} is there twice", "Keep one of the two")
    return row


def _refuse_constant(name: str) -> NoReturn:
    """NaN and Infinity: Python's json would read them, but they are not JSON."""
    raise _Unusable("not JSON", f"{name} is not a JSON value", "Write null or a number")


def _kind(value: object) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names: dict[type, str] = {
        str: "a string",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]


def _excerpt(raw: bytes | str, end: bool = False) -> str:
    """The beginning (or the end) of what was found, in quotes and on one line."""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
    if len(text) <= _EXCERPT_CHARACTERS:
        return repr(text)
    return f"...{text[-_EXCERPT_CHARACTERS:]!r}" if end else f"{text[:_EXCERPT_CHARACTERS]!r}..."


def _shorten(text: str) -> str:
    """At most a few words of a list."""
    return text if len(text) <= 2 * _EXCERPT_CHARACTERS else text[: 2 * _EXCERPT_CHARACTERS] + "..."
