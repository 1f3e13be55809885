"""What a trace keeps: a `Record` of steps, shapes and values that prints, saves as JSON and compares itself.

JSON and not pickle, because a record is read by people, by notebooks and by another machine's comparison.
"""

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

Value = float | int | str | bool | list[Any]

RTOL = 1e-4
"""Relative difference that another CPU may show in fp32 after a few steps; shapes and counts get none."""
ATOL = 1e-9
"""Below this a number is rounding noise around zero."""
NOT_COMPARED = ("time_s", "memory_bytes")
"""Fields that differ from run to run by nature."""


@dataclass
class ParameterRecord:
    """One parameter tensor in one update.

    Attributes:
        shape: of the parameter.
        grad_norm: Euclidean norm of its gradient before the clip.
        delta_max: largest absolute change of an entry in this update.
        delta_rms: root mean square change over its entries.
        update_ratio: norm of the change / norm of the parameter before it.
    """

    shape: list[int]
    grad_norm: float
    delta_max: float
    delta_rms: float
    update_ratio: float


@dataclass
class StepRecord:
    """One update: what went in, what was measured, what moved.

    Attributes:
        step: number of the update, from 1.
        loss: mean loss per unit of weight (per supervised token for the language loss), in nats.
        learning_rate: rate of the first parameter group in this update.
        grad_norm_before_clip: global gradient norm as computed.
        grad_norm_after_clip: global gradient norm that the optimizer saw.
        tokens: supervised tokens in the update (all micro-batches).
        micro_losses: each micro-batch's contribution to `loss`; they add up to it.
        sample_ids: documents in the update, in order.
        parameters: by name.
        time_s: wall time of the update; never compared.
        memory_bytes: peak memory of the accelerator, None on a CPU; never compared.
    """

    step: int
    loss: float
    learning_rate: float
    grad_norm_before_clip: float
    grad_norm_after_clip: float
    tokens: int
    micro_losses: list[float]
    sample_ids: list[int]
    parameters: dict[str, ParameterRecord]
    time_s: float
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Difference:
    """One field in which a record and its reference disagree."""

    field: str
    ours: Any
    reference: Any
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: {self.ours!r} here, {self.reference!r} in the reference ({self.rule})"


@dataclass
class Record:
    """The result of a lab.

    Attributes:
        lab: name of the lab that made it.
        arguments: what the lab was told.
        environment: versions and device; shown, never compared.
        shapes: of named tensors, as lists.
        dtypes: of the same tensors.
        values: further numbers, words and lists that the lab measured.
        steps: one entry for each recorded update.
        bands: for a field, the relative tolerance to use instead of `RTOL`; saved with the reference.
    """

    lab: str
    arguments: dict[str, Value] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    steps: list[StepRecord] = field(default_factory=list)
    bands: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain dicts and lists, as it stands in the file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            ValueError: a field is missing or unknown; the message names it.
        """
        try:
            steps = [
                StepRecord(**{**s, "parameters": {k: ParameterRecord(**p) for k, p in s["parameters"].items()}})
                for s in data["steps"]
            ]
            return cls(**{**data, "steps": steps})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"this is not a record of this version: {error}") from error

    def save(self, path: str | Path) -> None:
        """Writes JSON.

        Raises:
            ValueError: a number is not finite; the message names its field. NaN is a finding to report, not a value
                to file.
        """
        data = self.to_dict()
        for name, value in _not_finite("", data):
            raise ValueError(f"{path}: {name} is {value}, which a record cannot hold; the run that made it diverged.")
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a record.

        Raises:
            ValueError: the file is not JSON or not a record; the message names the file.
        """
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (json.JSONDecodeError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def compare(self, reference: "Record") -> list[Difference]:
        """Every field in which this record differs from `reference`, beyond what its kind allows.

        Integers, words, shapes and ids must be equal; floats must agree within `RTOL`, or within the reference's
        band for that field. `environment` and measured times are not compared.
        """
        ours, theirs = self.to_dict(), reference.to_dict()
        for data in (ours, theirs):
            del data["environment"], data["bands"]
        return list(_differences("", ours, theirs, reference.bands))

    def table(self, parameters: int = 5) -> str:
        """The record as text: one line a fact, then the parameters that moved most in the last step."""
        lines = [f"{name}.shape = {tuple(shape)}" for name, shape in self.shapes.items()]
        lines += [f"{name} = {format_value(value)}" for name, value in self.values.items()]
        if not self.steps:
            return "\n".join(lines)
        lines += ["", "step     loss  learning_rate  grad_norm: before   after   tokens"]
        for step in self.steps:
            lines.append(
                f"{step.step:4d}  {step.loss:7.4f}  {step.learning_rate:13.3e}  "
                f"{step.grad_norm_before_clip:17.4f}  {step.grad_norm_after_clip:6.4f}  {step.tokens:7d}"
            )
        last = self.steps[-1]
        moved = sorted(last.parameters.items(), key=lambda item: -item[1].delta_rms)[:parameters]
        width = max((len(name) for name, _ in moved), default=0)
        lines += ["", f"{'moved most in step ' + str(last.step):{width}}  delta_max  delta_rms  update_ratio"]
        for name, moved_by in moved:
            lines.append(
                f"{name:{width}}  {moved_by.delta_max:9.3e}  {moved_by.delta_rms:9.3e}  {moved_by.update_ratio:12.3e}"
            )
        return "\n".join(lines)


def format_value(value: Any) -> str:
    """A value as a lab prints it: four significant digits for floats, thousands separated for counts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if value == 0 or abs(value) < 1000 else f"{value:,.1f}"


def _not_finite(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _not_finite(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(f"{path}[{index}]", item)


def _differences(path: str, ours: Any, reference: Any, bands: dict[str, float]) -> Iterator[Difference]:
    name = path.rsplit(".", 1)[-1]
    if name in NOT_COMPARED:
        return
    if isinstance(ours, dict) and isinstance(reference, dict):
        for key in sorted(ours.keys() | reference.keys()):
            here = f"{path}.{key}" if path else key
            if key not in ours or key not in reference:
                yield Difference(here, ours.get(key, "absent"), reference.get(key, "absent"), "present in one only")
            else:
                yield from _differences(here, ours[key], reference[key], bands)
    elif isinstance(ours, list) and isinstance(reference, list):
        if len(ours) != len(reference):
            yield Difference(path, len(ours), len(reference), "lengths must be equal")
        else:
            for index, (a, b) in enumerate(zip(ours, reference, strict=True)):
                yield from _differences(f"{path}[{index}]", a, b, bands)
    elif isinstance(ours, float) and isinstance(reference, float):
        rtol = bands.get(name, RTOL)
        if not math.isclose(ours, reference, rel_tol=rtol, abs_tol=ATOL):
            yield Difference(path, ours, reference, f"rtol {rtol:g}")
    elif type(ours) is not type(reference) or ours != reference:
        yield Difference(path, ours, reference, "must be equal")
