"""How long a run would take here: a few real updates, and from there by arithmetic."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from minimind.config import MiniMindConfig, RunConfig, preset
from minimind.data.batch import Batch
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.readiness.needs import Needs, flops_of_update, needs_of
from minimind.tokenizer import load_tokenizer
from minimind.train.device import good_threads, make_autocast, resolve_device
from minimind.train.schedule import warmup_cosine
from minimind.train.stage import make_optimizers
from minimind.train.step import TrainState, train_step

AFFORDABLE_FLOPS = {"cpu": 8 * 10**9, "mps": 10**12, "cuda": 10**13}
"""An update of at most so many operations is made as it is: a fraction of a second each. A larger one is scaled."""

PATIENCE_S = 1.0
"""After so many seconds no further update is begun: a machine that is busy is slow enough to have been measured."""

FIGURES: dict[str, RunConfig] = {
    "lab": preset("lab"),
    "lesson": preset("lesson"),
    # A thousand million tokens for the 64M model, in updates of a quarter of a million: what a GPU is for.
    "64M": preset("lab").replace(
        hidden_size=768,
        num_hidden_layers=8,
        max_seq_len=340,
        batch_size=32,
        accumulation_steps=24,
        max_steps=3830,
        save_interval=500,
        threads=0,
        save_weight="64M",
    ),
}
"""The runs that a machine is measured against."""


@dataclass(frozen=True)
class Estimate:
    """How long one run would take on one device. Good to a factor of about two; saving and validation come on top.

    Attributes:
        needs: of the run.
        update_s: seconds of one update, of full rows.
        measured: whether this update itself was made, or a smaller one and the rest by arithmetic.
    """

    needs: Needs
    update_s: float
    measured: bool

    @property
    def total_s(self) -> float | None:
        """Seconds of all updates; None when the data decides how many there are."""
        return None if self.needs.steps is None else self.needs.steps * self.update_s


@dataclass(frozen=True)
class _Part:
    """A run, or a part of it that is small enough to be measured."""

    run: RunConfig
    config: MiniMindConfig
    parameters: int

    @property
    def flops(self) -> int:
        return flops_of_update(self.run, self.config, self.parameters)


def estimate(run: RunConfig, device: str = "cpu", updates: int = 2) -> Estimate:
    """Makes a few real updates on random ids, and says how long the whole run would take.

    What an update does with tokens is scaled by its operations, what it does with parameters by their number. A smaller
    update is made with one CPU thread, and the run's threads are taken to share the work evenly: its pieces are too
    small to be handed out, so that measured with all threads it would say more of what else the machine does.

    Args:
        run: the run.
        device: where to measure, as `--device` names it.
        updates: how many to time, after one that warms up; the fastest counts, since whatever else the machine does
            only adds to it.

    Raises:
        ValueError: there is no such device or tokenizer here, or the sizes make no model.
    """
    vocab_size = len(load_tokenizer(run.tokenizer))
    place = resolve_device(device)
    needs = needs_of(run, vocab_size)
    part = _affordable(run, vocab_size, AFFORDABLE_FLOPS[place.type])
    measured = part.run == run
    threads = run.threads or good_threads(needs.parameters)
    sharing = threads if place.type == "cpu" and not measured else 1
    # Random state stays as it is: the program that asks may be about to train.
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        tokens_s, parameters_s = _time_of_update(part, place, updates, threads if measured else 1)
    update_s = tokens_s * needs.flops / part.flops / sharing + parameters_s * needs.parameters / part.parameters
    return Estimate(needs, update_s, measured)


def _affordable(run: RunConfig, vocab_size: int, limit_flops: int) -> _Part:
    """The run itself, or the largest part of it that is measured in moments: of equal width, so of equal pace."""
    rows = run.replace(accumulation_steps=1)
    row = rows.replace(batch_size=1)
    block = row.replace(num_hidden_layers=1)
    # The last resort has few tokens and a small vocabulary: enough for the pace of the products inside a block.
    short = block.replace(max_seq_len=min(64, run.max_seq_len))
    for each in (run, rows, row, block, short):
        config = each.model_config(min(800, vocab_size) if each is short else vocab_size)
        with torch.device("meta"):
            parameters = sum(p.numel() for p in MiniMindForCausalLM(config).parameters())
        part = _Part(each, config, parameters)
        if part.flops <= limit_flops or each is short:
            break
    return part


def _time_of_update(part: _Part, device: torch.device, updates: int, threads: int) -> tuple[float, float]:
    """Seconds of the fastest update: forward and backward, and the rest. The thread count stays."""
    run = part.run
    model = MiniMindForCausalLM(part.config)
    rows = run.batch_size * run.accumulation_steps
    ids = torch.randint(part.config.vocab_size, (rows, run.max_seq_len))
    model.train()
    model.to(device)  # type: ignore[arg-type]
    batch = Batch(ids, ids.clone(), None, None, None, tuple(range(rows))).to(device)
    state = TrainState(
        model,
        make_optimizers(run, model),
        schedule=warmup_cosine(updates + 1),
        grad_clip=run.grad_clip,
        autocast=make_autocast(run.dtype, device),
    )
    stamps: dict[str, float] = {}

    def emit(name: str, /, **payload: Any) -> None:
        if name in ("step.start", "grads.ready", "step.end"):
            if device.type != "cpu":  # an accelerator works behind the program, which would time itself
                getattr(torch, device.type).synchronize()
            stamps[name] = time.perf_counter()

    times: list[tuple[float, float]] = []
    threads_before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(threads)
    try:
        begun_s = time.perf_counter()
        while len(times) < 2 or (len(times) <= updates and time.perf_counter() - begun_s < PATIENCE_S):
            train_step(state, batch.split(run.accumulation_steps), NextToken(), emit)
            times.append((stamps["grads.ready"] - stamps["step.start"], stamps["step.end"] - stamps["grads.ready"]))
    finally:
        torch.set_num_threads(threads_before)
    return min(times[1:], key=sum)
