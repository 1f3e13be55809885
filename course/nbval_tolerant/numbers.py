"""Compare two printed texts: words exactly, integers exactly, other numbers within a tolerance.

Three rules decide whether two printed numbers are equal:

- An integer equals only the same integer: shapes, counts and ids do not move.
- A number with a point or an exponent may move by `rtol` of its size, by `atol`, or by one unit in its last
  printed place (two values a hair apart may round to neighbours). The last-place rule needs three significant
  digits on both sides, since the last place of `0.0005` is a fifth of the number.
- `nan` and `inf` equal only themselves, sign included.

A number glued to letters is a word (`layers.0`, `64x2`, `float32`, `2.13.0`) and is compared as text.
"""

import itertools
import math
import re
from dataclasses import dataclass

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])"  # not inside a word, a path or a version
    r"(?:(?<![)\]])[-+])?"  # a sign, unless it subtracts
    r"(?:"
    r"(?:[0-9]+\.[0-9]*(?=[eE][-+]?[0-9])|[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[nN]a[nN]|[iI]nf(?:inity)?"
    r")"
    r"(?!\.?[A-Za-z0-9_])"  # never the first half of 64x2 or 2.13.0
)
_PARTS = re.compile(r"[-+]?([0-9]*)\.?([0-9]*)(?:[eE]([-+]?[0-9]+))?")
_SPACES = re.compile(r"(?<=\S)[ \t]+")

# One unit, and a hair for the binary representation of the two decimals.
_LAST_PLACE = 1.01
_SIGNIFICANT_DIGITS = 3
_SHOWN_DIFFERENCES = 5
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class Tolerance:
    """How far a printed number may move.

    Args:
        rtol: Fraction of the larger of the two numbers.
        atol: Absolute, in the number's own unit.
    """

    rtol: float = 1e-4
    atol: float = 0.0


def differences(stored: str, computed: str, tolerance: Tolerance) -> list[str]:
    """Return one sentence per place where two texts differ; an empty list when they are equal.

    Args:
        stored: The text in the notebook.
        computed: The text that came out now.
        tolerance: For numbers that are not integers.
    """
    found = []
    pairs = itertools.zip_longest(stored.split("\n"), computed.split("\n"))
    for number, (old, new) in enumerate(pairs, start=1):
        if old is None:
            found.append(f"line {number} is new: {_short(new)}")
        elif new is None:
            found.append(f"line {number} is gone: {_short(old)}")
        else:
            found += [f"line {number}: {sentence}" for sentence in _line_differences(old, new, tolerance)]
    if len(found) > _SHOWN_DIFFERENCES:
        found[_SHOWN_DIFFERENCES:] = [f"and {len(found) - _SHOWN_DIFFERENCES} more."]
    return found


def _line_differences(stored: str, computed: str, tolerance: Tolerance) -> list[str]:
    if stored == computed:
        return []
    old_words, old_numbers = _split(stored)
    new_words, new_numbers = _split(computed)
    if old_words != new_words:
        return [f"the text changed\n    stored: {_short(stored)}\n    now:    {_short(computed)}"]
    moves = []
    for old, new in zip(old_numbers, new_numbers, strict=True):
        if move := _move(old, new, tolerance):
            moves.append(f"{move}\n    now:    {_short(computed)}")
    return moves


def _split(line: str) -> tuple[list[str], list[str]]:
    """Return the words around the numbers, and the numbers.

    Runs of blanks inside a line count as one, and blanks before a number as none: columns shift with signs and lengths.
    """
    *before, last = _NUMBER.split(line)
    words = [_SPACES.sub(" ", part).rstrip(" \t") for part in before]
    return [*words, _SPACES.sub(" ", last)], _NUMBER.findall(line)


def _move(stored: str, computed: str, tolerance: Tolerance) -> str:
    """Return a sentence when a printed number moved too far, "" when the two are equal."""
    if stored == computed:
        return ""
    old, new = float(stored), float(computed)
    if not (math.isfinite(old) and math.isfinite(new)):
        return f"{stored} became {computed}"
    if _is_integer(stored) or _is_integer(computed):
        return f"{stored} became {computed}: integers are compared exactly"
    size = max(abs(old), abs(new))
    allowed = max(tolerance.rtol * size, tolerance.atol, _last_place_slack(stored, computed))
    moved = abs(new - old)
    if moved <= allowed:
        return ""
    share = f", {100 * moved / abs(old):.3g} %" if old else ""
    return f"{stored} became {computed} (moved by {moved:.3g}{share}; {allowed:.2g} is allowed)"


def _last_place_slack(stored: str, computed: str) -> float:
    if min(_significant_digits(stored), _significant_digits(computed)) < _SIGNIFICANT_DIGITS:
        return 0.0
    return _LAST_PLACE * max(_last_place(stored), _last_place(computed))


def _is_integer(token: str) -> bool:
    return token.lstrip("+-").isdigit()


def _significant_digits(token: str) -> int:
    whole, fraction, _ = _parts(token)
    return len((whole + fraction).lstrip("0"))


def _last_place(token: str) -> float:
    """Return one unit in the last printed place: 0.01 for `2.35`, 1e-07 for `1.25e-05`."""
    _, fraction, exponent = _parts(token)
    return 10.0 ** (exponent - len(fraction))


def _parts(token: str) -> tuple[str, str, int]:
    match = _PARTS.fullmatch(token)
    assert match is not None, token
    return match[1], match[2], int(match[3] or 0)


def _short(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
