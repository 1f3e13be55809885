"""Lesson 3, second exercise: show no half character while tokens arrive.

Tokens are runs of bytes. The checker hands over one after another and looks at what is shown after each, what is held
back, and what is there in the end.
"""

from collections.abc import Callable, Sequence
from typing import Any

from course.kit.exercises import Exercise, Verdict, WrongAnswer

Put = Callable[[bytes, bytes], Any]

LONGEST_BEGINNING_BYTES = 3
"""A character has at most four bytes, so at most three wait for the last."""


def put(held_back: bytes, arrived: bytes) -> tuple[str, bytes]:
    """The reference answer: as few bytes as possible wait, at most three."""
    return _put(held_back, arrived, lambda data: (data.decode(errors="replace"), b""))


def _put(held_back: bytes, arrived: bytes, otherwise: Callable[[bytes], tuple[str, bytes]]) -> tuple[str, bytes]:
    """As few bytes as possible wait; `otherwise` says what happens to bytes that are no beginning of a character."""
    data = held_back + arrived
    for waiting in range(LONGEST_BEGINNING_BYTES + 1):
        whole = len(data) - waiting
        try:
            return data[:whole].decode(), data[whole:]
        except UnicodeDecodeError:
            continue
    return otherwise(data)


def _tokens(text: str) -> list[bytes]:
    """A byte a token, as far as characters outside of ASCII go; words stay whole."""
    tokens = []
    for word in text.replace(" ", " \0").split("\0"):
        tokens += [word.encode()] if word.isascii() else [bytes([byte]) for byte in word.encode()]
    return [token for token in tokens if token]


# What arrives, and what a stream shows after each token.
FOX = ([b"A ", b"\xf0\x9f", b"\xa6", b"\x8a", b"!"], ["A ", "", "", "🦊", "!"])
BORDER = ([b"caf\xc3", b"\xa9 \xe5\xb0", b"\x8f\xe7", b"\x8c\xab"], ["caf", "é ", "小", "猫"])
TYPED = (["\ufffd?".encode(), "\ufffd".encode(), b"a"], ["\ufffd?", "\ufffd", "a"])
BROKEN = [b"a", b"\xff", b"b ", b"\xa6", b"c ", b"d", b" e", b"f"]
"""Bytes that no character has; a model may write them."""


def check_stream(answer: Put) -> Verdict:
    """Says whether pieces are whole, in time and complete."""
    problem = _wrong_form(answer)
    for arriving, expected in (FOX, TYPED, BORDER):
        problem = problem or _wrong_pieces(answer, arriving, expected)
    problem = problem or _wrong_text(answer) or _wrong_when_broken(answer)
    if problem is not None:
        return Verdict.wrong(problem)
    return Verdict.correct(
        "Each character appears with its last byte, none before it, and none is lost. `minimind chat` writes its "
        "answers by the same rule."
    )


def _wrong_form(answer: Put) -> str | None:
    returned = answer(b"", b"a")
    if not (isinstance(returned, tuple) and len(returned) == 2):
        return f"Return the pair `(text, held_back)`; this returned `{returned!r}`."
    text, held_back = returned
    if isinstance(text, bytes) and isinstance(held_back, str):
        return "The two are swapped: return `(text, held_back)`."
    if not isinstance(text, str) or not isinstance(held_back, bytes):
        return (
            f"Return text (`str`) and what is held back (`bytes`); this returned a `{type(text).__name__}` and a "
            f"`{type(held_back).__name__}`."
        )
    return None


def _wrong_pieces(answer: Put, arriving: Sequence[bytes], expected: Sequence[str]) -> str | None:
    """Follows a stream until a piece is not the right one, and says in what."""
    held_back, total = b"", ""
    for number, (token, right) in enumerate(zip(arriving, expected, strict=True), start=1):
        here = held_back + token
        piece, held_back = answer(held_back, token)
        so_far = f"After the tokens {list(arriving[:number])}"
        if not here.endswith(held_back):
            return (
                f"{so_far} {held_back!r} is held back, which is not the end of what came. Bytes that wait have to come "
                "before those that arrive."
            )
        if "\ufffd" in piece and "\ufffd" not in right:
            return f"{so_far} the piece {piece!r} shows half a character. Hold its bytes back until the rest comes."
        if total and piece == total + right:
            return f"{so_far} the piece is {piece!r}, which shows again what was shown before; return only what is new."
        if len(piece.encode()) + len(held_back) < len(here):
            return (
                f"{so_far} the piece is {piece!r} and {held_back!r} is held back, so of the bytes {here!r} some "
                "got lost. What is not shown yet has to wait."
            )
        if right.startswith("\ufffd") and not piece:
            return (
                f"{so_far} nothing is shown, and {right!r} is whole. A person typed that: \ufffd is a character with "
                "three bytes of its own. Look at the bytes, not at the decoded text."
            )
        if right.startswith(piece) and piece != right:
            return f"{so_far} the piece is {piece!r}, and {right!r} is whole; hold back only the unfinished end."
        if piece != right:
            return f"{so_far} the piece is {piece!r} and should be {right!r}."
        total += piece
    if held_back:
        return f"After the tokens {list(arriving)} the text is whole, and {held_back!r} is still held back."
    return None


def _wrong_text(answer: Put) -> str | None:
    text = "Naïve 小猫 and 🦊🦊 say 你好 e\u0301 \ufffd."
    held_back, pieces = b"", []
    for token in _tokens(text):
        piece, held_back = answer(held_back, token)
        pieces.append(piece)
    if "".join(pieces) != text:
        return f"The pieces of {text!r} join to {''.join(pieces)!r}."
    return None


def _wrong_when_broken(answer: Put) -> str | None:
    """Bytes that no character has: they are shown, and nothing waits for ever."""
    held_back, total = b"", ""
    because = "A model may write bytes that no character has; show them as \ufffd (`errors='replace'`)."
    for number, token in enumerate(BROKEN, start=1):
        so_far = f"After the tokens {BROKEN[:number]}"
        try:
            piece, held_back = answer(held_back, token)
        except UnicodeDecodeError:
            return f"{so_far} the function raises UnicodeDecodeError. {because}"
        if len(held_back) > LONGEST_BEGINNING_BYTES:
            return f"{so_far} {held_back!r} waits, and will for ever: at most three bytes wait for a fourth. {because}"
        total += piece
    total += held_back.decode(errors="replace")
    right = b"".join(BROKEN).decode(errors="replace")
    if total.count("\ufffd") < right.count("\ufffd"):
        return f"Of the tokens {BROKEN} two bytes vanished, and {total!r} is left. {because}"
    if total != right:
        return f"The tokens {BROKEN} make {right!r}, and yours make {total!r}. {because}"
    return None


def _hold_while(unfinished: Callable[[bytes], bool]) -> Put:
    """Answers that hold everything back as long as something says so."""
    return lambda held_back, arrived: (
        ("", held_back + arrived)
        if unfinished(held_back + arrived)
        else ((held_back + arrived).decode(errors="replace"), b"")
    )


def _otherwise(what: Callable[[bytes], tuple[str, bytes]]) -> Put:
    return lambda held_back, arrived: _put(held_back, arrived, what)


STREAM = Exercise(
    key="03-stream",
    title="No half character",
    task=(
        "Write `put(held_back, arrived)`: both are `bytes`, what waited so far and the bytes of the token that has "
        "just come. Return the pair `(text, held_back)`: the characters that are whole now, as `str`, and the bytes "
        "that wait for the next token. Bytes that can never become a character are shown as \ufffd."
    ),
    check=check_stream,
    reference=put,
    wrong_answers=(
        WrongAnswer("each token alone", lambda h, a: (a.decode(errors="replace"), b""), "half a character"),
        WrongAnswer("halves dropped", lambda h, a: (a.decode(errors="ignore"), b""), "got lost"),
        WrongAnswer("everything again", lambda h, a: (put(b"", h + a)[0], h + a), "shown before"),
        WrongAnswer("everything at the end", lambda h, a: ("", h + a), "is whole;"),
        WrongAnswer("held back after the new", lambda h, a: put(a, h), "have to come before"),
        WrongAnswer("held back forgotten", lambda h, a: put(b"", a), "got lost"),
        WrongAnswer(
            "the last byte always waits",
            lambda h, a: ((h + a)[:-1].decode(errors="replace"), (h + a)[-1:]),
            "is whole;",
        ),
        WrongAnswer("waits while the last byte is no ASCII", _hold_while(lambda data: data[-1] > 127), "is whole;"),
        WrongAnswer(
            "waits while the text ends in a replacement",
            _hold_while(lambda data: data.decode(errors="replace").endswith("\ufffd")),
            "A person typed that",
        ),
        WrongAnswer(
            "raises on bytes of no character",
            _otherwise(lambda data: (data.decode(), b"")),
            "raises UnicodeDecodeError",
        ),
        WrongAnswer("waits for ever", _otherwise(lambda data: ("", data)), "for ever"),
        WrongAnswer(
            "bytes of no character vanish", _otherwise(lambda data: (data.decode(errors="ignore"), b"")), "vanished"
        ),
        WrongAnswer("pair swapped", lambda h, a: put(h, a)[::-1], "swapped"),
        WrongAnswer("text alone", lambda h, a: put(h, a)[0], "pair"),
    ),
    hints=(
        "Put what waited before what arrived. Then ask: how many bytes at the end are the beginning of a character "
        "whose rest has not come? None, one, two or three.",
        "`data.decode()` raises `UnicodeDecodeError` if the bytes are not whole characters. Try with all bytes, then "
        "without the last one, the last two, the last three; the first that works leaves the fewest waiting.",
        "If none of the four works, the bytes will never become characters: `data.decode(errors='replace')`, and "
        "nothing waits.",
    ),
)

EXERCISES = (STREAM,)
