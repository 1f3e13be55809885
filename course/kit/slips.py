"""Slips of an author, refused with a sentence before a student meets them."""

import re
from collections.abc import Sequence
from typing import Any


def require_key(kind: str, key: Any) -> None:
    """Refuses a key that does not say which lesson the item belongs to.

    Raises:
        ValueError: It is no text, or does not start with two digits and a hyphen.
    """
    if not isinstance(key, str) or not re.fullmatch(r"\d\d-\S+", key):
        raise ValueError(
            f"The {kind} key {key!r} must start with the two digits of its lesson and '-', as in '07-loss'."
        )


def require_text(where: str, what: str, value: Any) -> None:
    """Refuses what is not text, or empty.

    Args:
        where: The item, at the head of the sentence, such as "Quiz '07-loss'".
        what: The field, such as "the question".
        value: What was passed.

    Raises:
        ValueError: It is not text.
    """
    if not isinstance(value, str):
        raise ValueError(f"{where}: {what} is {value!r}, a {type(value).__name__}; write it as text.")
    if not value.strip():
        raise ValueError(f"{where}: {what} is empty; write it.")


def require_options(where: str, what: str, options: Sequence[Any]) -> None:
    """Refuses options that nobody could choose among.

    Args:
        where: The item, at the head of the sentence.
        what: What the options are called: "option" or "choice".
        options: What was passed.

    Raises:
        ValueError: They are one text in place of several, not all text, too few, or repeated.
    """
    if isinstance(options, str):
        raise ValueError(f"{where}: the {what}s are the one text {options!r}; put them into a list.")
    for option in options:
        require_text(where, f"the {what} {option!r}", option)
    if len(options) < 2 or len(set(options)) != len(options):
        raise ValueError(f"{where} has the {what}s {list(options)}; give at least two, no two of them equal.")
