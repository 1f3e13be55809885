"""Lesson 2: fill a plan for your own machine.

The checker builds the models of a few small runs, makes one real update with AdamW, and weighs the tensors that are
then there; it commits real checkpoints, and counts how many stand on the disk at once. The student's numbers are
compared with these.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from minimind.config import RunConfig, preset
from minimind.data.batch import Batch
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.tokenizer import load_tokenizer
from minimind.train.checkpoint import Disk, Snapshot, commit
from minimind.train.optim import adamw, state_tensors

KEYS = "weights gradients optimizer memory checkpoint disk seconds fits".split()
GIB, GB = 2**30, 10**9
RTOL = 1e-3
"""Beside its two averages AdamW keeps one counter for each tensor: too little to plan for."""


@dataclass(frozen=True)
class MachineSheet:
    """A machine as its sheet describes it.

    Attributes:
        memory_gib: free memory, in GiB (2**30 bytes), as memory is sold.
        disk_gb: free disk, in GB (10**9 bytes), as disks are sold.
        update_s: seconds of one whole update, measured.
    """

    memory_gib: float
    disk_gb: float
    update_s: float


Plan = Callable[[RunConfig, MachineSheet], Any]

# Each differs from the next in what a mistake could hang on: micro-batches, dtype, kept checkpoints, vocabulary.
RUNS = (
    preset("lab").replace(hidden_size=32, keep_checkpoints=2, max_steps=40),
    preset("lab").replace(
        hidden_size=32, tokenizer="world-800", dtype="bfloat16", accumulation_steps=4, keep_checkpoints=3, max_steps=90,
        batch_size=5,
    ),
)  # fmt: skip
UPDATE_S = 0.25


def plan_of(run: RunConfig, machine: MachineSheet) -> dict[str, Any]:
    """The reference answer."""
    with torch.device("meta"):
        model = MiniMindForCausalLM(run.model_config(len(load_tokenizer(run.tokenizer))))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    gradients = weights
    optimizer = 2 * weights
    memory = weights + gradients + optimizer
    checkpoint = weights + optimizer
    disk = weights + (run.keep_checkpoints + 1) * checkpoint
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "memory": memory,
        "checkpoint": checkpoint,
        "disk": disk,
        "seconds": run.max_steps * machine.update_s,
        "fits": memory <= machine.memory_gib * 2**30 and disk <= machine.disk_gb * 10**9,
    }


# --- what is really there ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Real:
    """What one run really holds: bytes of tensors after a real update, and on the disk."""

    weights: int
    twice_tied: int
    gradients: int
    optimizer: int
    standing: int

    @property
    def memory(self) -> int:
        return self.weights + self.gradients + self.optimizer

    @property
    def checkpoint(self) -> int:
        return self.weights + self.optimizer

    @property
    def disk(self) -> int:
        return self.weights + self.standing * self.checkpoint


@lru_cache
def _real(run: RunConfig) -> _Real:
    vocab_size = len(load_tokenizer(run.tokenizer))
    with torch.random.fork_rng(devices=[]):
        model = MiniMindForCausalLM(run.model_config(vocab_size))
        ids = torch.randint(vocab_size, (run.batch_size * run.accumulation_steps, 8))
    optimizers = adamw(model, run.learning_rate)
    batch = Batch(ids, ids.clone(), None, None, None, tuple(range(len(ids))))
    for part in batch.split(run.accumulation_steps):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=run.dtype == "bfloat16"):
            loss = NextToken().loss(model, part)
        loss.backward()
    optimizers.step()
    state, document = state_tensors(optimizers, model)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    return _Real(
        weights=_size(weights),
        twice_tied=_size(model.state_dict()),
        gradients=_size({name: p.grad for name, p in model.named_parameters() if p.grad is not None}),
        optimizer=_size(state),
        standing=_most_standing(Snapshot(1, {"model": weights, "optim": state}, {"optim": document}), run),
    )


def _most_standing(snapshot: Snapshot, run: RunConfig) -> int:
    """Commits some checkpoints, and counts the most that stood on the disk at any moment."""
    most = 0

    class Watched(Disk):
        def event(self, name: str, path: Path) -> None:
            nonlocal most
            most = max(most, len(list(root.glob("*/optim.safetensors"))))

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "checkpoints"
        for step in range(1, run.keep_checkpoints + 3):
            commit(root, Snapshot(step, snapshot.tensors, snapshot.documents), run.keep_checkpoints, disk=Watched())
    return most


def _size(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors.values())


# --- the check --------------------------------------------------------------------------------------------------


def check_plan(plan: Plan) -> Verdict:
    """Compares a plan with what a real update holds and a real commit writes."""
    for run in RUNS:
        real = _real(run)
        roomy = MachineSheet(2 * real.memory / GIB, 2 * real.disk / GB, UPDATE_S)
        yours = plan(run, roomy)
        problem = _wrong_form(yours) or _wrong_number(yours, run, real) or _wrong_verdict(plan, run, real)
        if problem is not None:
            shown = f"width {run.hidden_size}, tokenizer {run.tokenizer}, dtype {run.dtype}"
            return Verdict.wrong(f"{problem} (The run: {shown}, keep_checkpoints {run.keep_checkpoints}.)")
    return Verdict.correct(
        "Every number is that of the tensors after a real update with AdamW, and of the checkpoints that a real commit "
        "left standing. So you know what a run costs before you begin it."
    )


def _wrong_form(yours: Any) -> str | None:
    if not isinstance(yours, Mapping):
        return f"Return a dict with the keys {', '.join(KEYS)}; this returned a `{type(yours).__name__}`."
    missing = [key for key in KEYS if key not in yours]
    if missing:
        return f"The plan has no {missing[0]!r}; it needs {', '.join(KEYS)}."
    for key in KEYS[:-1]:
        if isinstance(yours[key], bool) or not isinstance(yours[key], int | float):
            return f"{key!r} must be a number, and is `{yours[key]!r}`."
    if not isinstance(yours["fits"], bool):
        return f"'fits' must be True or False, and is `{yours['fits']!r}`."
    return None


def _wrong_number(yours: Mapping[str, Any], run: RunConfig, real: _Real) -> str | None:
    w, g, o, c = real.weights, real.gradients, real.optimizer, real.checkpoint
    pieces, keep, steps = run.accumulation_steps, run.keep_checkpoints, run.max_steps
    halved = (
        "`dtype` is the precision of the forward pass. Autocast makes bfloat16 copies for it; weights, gradients and "
        "averages stay in float32, 4 bytes each"
    )
    right = {
        "weights": w,
        "gradients": g,
        "optimizer": o,
        "memory": real.memory,
        "checkpoint": c,
        "disk": real.disk,
        "seconds": steps * UPDATE_S,
    }
    named: dict[str, list[tuple[float, str]]] = {
        "weights": [
            (w / 4, "this is the number of parameters; a float32 has 4 bytes"),
            (w * 8, "these are bits; a byte has 8"),
            (
                real.twice_tied,
                "the embedding is counted twice. The output head is the same tensor under a second name, which "
                "`state_dict()` lists and `parameters()` does not",
            ),
            (w / 2, halved),
        ],
        "gradients": [
            (0, "the gradients are forgotten: one for each parameter"),
            (g * pieces, "micro-batches add to the same gradients; there is one for each parameter, not one for each "
                         "micro-batch"),
            (g / 2, halved),
        ],
        "optimizer": [
            (0, "AdamW remembers two running averages for each parameter, and here it remembers nothing"),
            (o / 2, "this is one number for each parameter; AdamW keeps two, of the gradient and of its square"),
            (o * 1.5, "this counts three numbers for each parameter; AdamW keeps two, and the gradient is not its own"),
        ],
        "memory": [
            (w + g, "the optimizer's averages are missing, half of all"),
            (w + o, "the gradients are missing, or the weights; both are there, and of equal size"),
            (real.memory / GIB, "this is in GiB; give bytes, and convert the machine's GiB instead"),
        ],
        "checkpoint": [
            (w, "these are the weights alone. A run goes on from a checkpoint, so the optimizer's averages are in it"),
            (real.memory, "the gradients are not in it: a checkpoint is written between two updates, when they are "
                          "cleared"),
            (o, "the weights are missing, or one of the two averages"),
        ],
        "disk": [
            (w + keep * c, "one checkpoint is missing: an old one is deleted only when the new one is verified, so "
                           "keep_checkpoints + 1 stand there for a moment"),
            (w + c, "this is one checkpoint; several are kept"),
            ((keep + 1) * c, "the weights in save_dir are missing; they are not in the checkpoints' folder"),
            (keep * c, "the weights in save_dir, and the checkpoint that is being written, are missing"),
        ],
        "seconds": [
            (steps * UPDATE_S * pieces, "`update_s` is of a whole update, all its micro-batches included"),
            (steps * UPDATE_S * run.batch_size, "`update_s` is of a whole update, all its rows included"),
            (UPDATE_S, "this is one update; the run makes max_steps of them"),
            (steps * UPDATE_S / 60, "these are minutes"),
            (steps, "this is the number of updates, not their time"),
        ],
    }  # fmt: skip
    for key, value in right.items():
        if _near(yours[key], value):
            continue
        reason = next((words for wrong, words in named[key] if _near(yours[key], wrong)), None)
        unit = "seconds" if key == "seconds" else "bytes"
        if reason is None:
            more = "more" if yours[key] > value else "less"
            reason = f"that is {more} than what is there, by a factor of {_factor(yours[key], value)}"
        return f"{key!r} is {yours[key]:,.10g}, and the real run has {value:,.10g} {unit}: {reason}."
    return None


def _wrong_verdict(plan: Plan, run: RunConfig, real: _Real) -> str | None:
    """Machines a few percent too small or large enough, where GiB taken for GB gives another verdict."""

    def fits(memory: float, disk: float) -> bool:
        sheet = MachineSheet(memory * real.memory / GIB, disk * real.disk / GB, UPDATE_S)
        return bool(plan(run, sheet)["fits"])

    if not fits(2, 2):
        return "The machine has twice what the plan asks for, and 'fits' is False."
    if fits(0.5, 2):
        return "The machine has half the memory that the plan asks for, and 'fits' is True. Compare the memory too."
    if fits(2, 0.5):
        return "The machine has half the disk that the plan asks for, and 'fits' is True. Compare the disk too."
    if not fits(1.03, 2) or fits(0.97, 2):
        return "Close to the border 'fits' is wrong for the memory: a GiB has 2**30 bytes, 7 % more than 10**9."
    if not fits(2, 1.03) or fits(2, 0.97):
        return "Close to the border 'fits' is wrong for the disk: a GB has 10**9 bytes, 7 % less than 2**30."
    return None


def _near(yours: float, value: float) -> bool:
    return abs(yours - value) <= RTOL * abs(value)


def _factor(yours: float, value: float) -> str:
    if yours <= 0:
        return "more than any"
    return f"{max(yours / value, value / yours):.3g}"


# --- the bank: what students write ------------------------------------------------------------------------------


def _variant(
    *,
    per_weight: float = 1.0,
    tied_twice: bool = False,
    half_in_bf16: bool = False,
    gradients: float = 1.0,
    pieces: bool = False,
    averages: float = 2.0,
    in_memory: str = "weights gradients optimizer",
    in_checkpoint: str = "weights optimizer",
    standing: Callable[[RunConfig], int] = lambda run: run.keep_checkpoints + 1,
    beside: bool = True,
    seconds: Callable[[RunConfig], float] = lambda run: run.max_steps,
    memory_unit: float = GIB,
    disk_unit: float = GB,
    judged: str = "memory disk",
) -> Plan:
    """`plan_of` with one thing done differently."""

    def plan(run: RunConfig, machine: MachineSheet) -> dict[str, Any]:
        with torch.device("meta"):
            model = MiniMindForCausalLM(run.model_config(len(load_tokenizer(run.tokenizer))))
        tensors = model.state_dict().values() if tied_twice else model.parameters()
        half = 0.5 if half_in_bf16 and run.dtype == "bfloat16" else 1.0
        size: dict[str, float] = {"weights": per_weight * half * sum(4 * t.numel() for t in tensors)}
        size["gradients"] = size["weights"] * gradients * (run.accumulation_steps if pieces else 1)
        size["optimizer"] = size["weights"] * averages
        size["memory"] = sum(size[name] for name in in_memory.split())
        size["checkpoint"] = sum(size[name] for name in in_checkpoint.split())
        size["disk"] = standing(run) * size["checkpoint"] + (size["weights"] if beside else 0)
        has = {"memory": machine.memory_gib * memory_unit, "disk": machine.disk_gb * disk_unit}
        fits = all(size[name] <= has[name] for name in judged.split())
        return {**size, "seconds": seconds(run) * machine.update_s, "fits": fits}

    return plan


def _without(key: str) -> Plan:
    return lambda run, machine: {name: value for name, value in plan_of(run, machine).items() if name != key}


PLAN = Exercise(
    key="02-plan",
    title="A plan for your own machine",
    task=(
        "Write `plan(run, machine)`: a dict with the bytes of `weights`, `gradients`, `optimizer`, `memory`, "
        "`checkpoint` and `disk`, the `seconds` of the whole run, and whether it `fits` the machine, True or False."
    ),
    check=check_plan,
    reference=plan_of,
    wrong_answers=(
        WrongAnswer("optimizer forgotten", _variant(averages=0), "two running averages"),
        WrongAnswer("one average", _variant(averages=1), "AdamW keeps two"),
        WrongAnswer("gradient counted among the averages", _variant(averages=3), "the gradient is not its own"),
        WrongAnswer("optimizer not in the sum", _variant(in_memory="weights gradients"), "averages are missing"),
        WrongAnswer("gradients forgotten", _variant(gradients=0), "gradients are forgotten"),
        WrongAnswer("gradients not in the sum", _variant(in_memory="weights optimizer"), "gradients are missing"),
        WrongAnswer("gradients of each micro-batch", _variant(pieces=True), "add to the same gradients"),
        WrongAnswer("parameters for bytes", _variant(per_weight=1 / 4), "number of parameters"),
        WrongAnswer("bits for bytes", _variant(per_weight=8), "these are bits"),
        WrongAnswer("tied embedding twice", _variant(tied_twice=True), "counted twice"),
        WrongAnswer("bfloat16 halves all", _variant(half_in_bf16=True), "stay in float32"),
        WrongAnswer("checkpoint without averages", _variant(in_checkpoint="weights"), "the weights alone"),
        WrongAnswer("gradients in it", _variant(in_checkpoint="weights gradients optimizer"), "they are cleared"),
        WrongAnswer("one checkpoint", _variant(standing=lambda run: 1), "several are kept"),
        WrongAnswer("none while writing", _variant(standing=lambda run: run.keep_checkpoints), "for a moment"),
        WrongAnswer("no weights on the disk", _variant(beside=False), "weights in save_dir are missing"),
        WrongAnswer(
            "seconds of each micro-batch",
            _variant(seconds=lambda run: run.max_steps * run.accumulation_steps),
            "micro-batches included",
        ),
        WrongAnswer(
            "seconds of each row", _variant(seconds=lambda run: run.max_steps * run.batch_size), "rows included"
        ),
        WrongAnswer("seconds of one update", _variant(seconds=lambda run: 1), "makes max_steps of them"),
        WrongAnswer("GiB taken for GB", _variant(memory_unit=GB), "a GiB has 2**30"),
        WrongAnswer("GB taken for GiB", _variant(disk_unit=GIB), "a GB has 10**9"),
        WrongAnswer("only the memory judged", _variant(judged="memory"), "Compare the disk too"),
        WrongAnswer("only the disk judged", _variant(judged="disk"), "Compare the memory too"),
        WrongAnswer("a key missing", _without("disk"), "no 'disk'"),
        WrongAnswer("one number", lambda run, machine: 17, "Return a dict"),
    ),
    hints=(
        "`skeleton(run)` has a tensor for each parameter. `p.numel() * p.element_size()` is what one of them weighs, "
        "also where it has no memory. Take `.parameters()`, which names each tensor once.",
        "With W for the bytes of the weights: the gradients are as large, and AdamW keeps two averages of that size. "
        "A checkpoint is written between two updates: there are no gradients then.",
        "On the disk: the weights once, and `keep_checkpoints + 1` checkpoints. Compare with "
        "`machine.memory_gib * 2**30` and `machine.disk_gb * 10**9`, and use `and`.",
    ),
)

EXERCISES = (PLAN,)
