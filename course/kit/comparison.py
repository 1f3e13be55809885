"""One check that says exact, close, or how different and where."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course.kit.output import Silent
from course.kit.style import number


@dataclass(frozen=True)
class Comparison(Silent):
    """The result of `compare`; true when nothing differs.

    Attributes:
        name: What was compared.
        verdict: "exact", "close" or "different".
        lines: One sentence for each pair of values that was compared.
        max_difference: Largest absolute difference; None where none can be taken (shapes, missing keys,
            words).
        index: Where it is, in a tensor.
    """

    name: str
    verdict: str
    lines: tuple[str, ...]
    max_difference: float | None = None
    index: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return self.verdict != "different"


def compare(name: str, yours: Any, reference: Any, rtol: float = 1e-5) -> Comparison:
    """Compares two values and prints one line for each pair: exact, close, or different by how much and
    where.

    Floats are close when |yours - reference| <= rtol * (|reference| + rms of the reference tensor), so that
    an entry near zero may carry the rounding noise of its neighbours. Whole numbers and words must be equal.
    A close pair is printed without its difference, which is noise and changes from machine to machine; it
    stands in `max_difference`.

    Args:
        name: Printed at the head of the line.
        yours: A tensor, array, number, list of numbers or string, or a dict of these.
        reference: The same kind of thing.
        rtol: Relative tolerance of floats; 0 asks for bit equality.
    """
    comparison = _compare(name, yours, reference, rtol)
    for line in comparison.lines:
        print(line)
    return comparison


def _compare(name: str, yours: Any, reference: Any, rtol: float) -> Comparison:
    if isinstance(yours, Mapping) and isinstance(reference, Mapping):
        return _compare_dicts(name, yours, reference, rtol)
    left, right = _tensor(yours), _tensor(reference)
    if left is None or right is None:
        if type(yours) is type(reference) and yours == reference:
            return Comparison(name, "exact", (f"{name}: exact",))
        return Comparison(name, "different", (f"{name}: DIFFERENT, yours {yours!r}, reference {reference!r}",))
    typed = hasattr(yours, "dtype") and hasattr(reference, "dtype")
    notes = f", dtype {_dtype(left)} against {_dtype(right)}" if typed and left.dtype != right.dtype else ""
    return _compare_tensors(name, left, right, rtol, notes)


def _compare_dicts(name: str, yours: Mapping[Any, Any], reference: Mapping[Any, Any], rtol: float) -> Comparison:
    parts = []
    for key in [*reference, *(key for key in yours if key not in reference)]:
        label = f"{name}[{key!r}]"
        if key not in yours:
            parts.append(Comparison(label, "different", (f"{label}: DIFFERENT, missing in yours",)))
        elif key not in reference:
            parts.append(Comparison(label, "different", (f"{label}: DIFFERENT, not in the reference",)))
        else:
            parts.append(_compare(label, yours[key], reference[key], rtol))
    if not parts:
        return Comparison(name, "exact", (f"{name}: exact, both empty",))
    order = ("exact", "close", "different")
    verdict = max((part.verdict for part in parts), key=order.index)
    worst = max(parts, key=lambda part: part.max_difference or 0.0)
    lines = tuple(line for part in parts for line in part.lines)
    return Comparison(name, verdict, lines, worst.max_difference, worst.index)


def _compare_tensors(name: str, yours: Tensor, reference: Tensor, rtol: float, notes: str) -> Comparison:
    shape = tuple(yours.shape)
    if shape != tuple(reference.shape):
        line = f"{name}: DIFFERENT shapes, yours {shape}, reference {tuple(reference.shape)}{notes}"
        return Comparison(name, "different", (line,))
    notes = (f", shape {shape}" if shape else "") + notes
    floats = yours.is_floating_point() or reference.is_floating_point()
    same = (yours == reference) | (yours.isnan() & reference.isnan())
    if floats and bool(reference.isnan().any()):
        notes += f", {int(reference.isnan().sum())} NaN in the reference"
    if bool(same.all()):
        return Comparison(name, "exact", (f"{name}: exact{notes}",), 0.0)
    left, right = yours.double(), reference.double()
    # Equal entries are taken out first: inf - inf would be NaN. Where only one side is NaN, nothing is
    # further off.
    difference = torch.where(same, 0.0, (left - right).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))
    finite = right[right.isfinite()]
    rms = finite.square().mean().sqrt() if finite.numel() else right.new_zeros(())
    close = same | (difference <= rtol * (right.abs() + rms)) & right.isfinite()
    index = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    largest = float(difference[index])
    if floats and bool(close.all()):
        return Comparison(name, "close", (f"{name}: close (rtol {rtol:g}){notes}",), largest, index)
    where = f" at {list(index)}" if shape else ""
    values = f"yours {number(yours[index].item())}, reference {number(reference[index].item())}"
    size = number(int(largest) if not floats else largest)
    line = f"{name}: DIFFERENT, max difference {size}{where}: {values}{notes}"
    return Comparison(name, "different", (line,), largest, index)


def _tensor(value: Any) -> Tensor | None:
    """Anything that holds numbers as a CPU tensor; None for words and other objects."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
