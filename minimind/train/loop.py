"""Updates, one after another, and what must happen between them: look, measure, save."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from minimind.data.batch import Batch
from minimind.data.loader import BatchSource, iterate
from minimind.trace.events import Emit, no_op
from minimind.train.step import Objective, StepResult, TrainState, train_step


class NonFiniteError(RuntimeError):
    """Loss or gradient stopped being a number; the message names step, samples and what to go back to."""


@dataclass(frozen=True)
class StepMetrics:
    """One update's numbers, read from the device and known to be finite."""

    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    tokens: int
    tokens_per_s: float


@dataclass(frozen=True)
class LoopPlan:
    """When the loop does what; all in updates, 0 for never.

    Attributes:
        total_steps: stop after this one.
        accumulation_steps: micro-batches of one update.
        log_interval: updates between two reads of the device.
        eval_interval: updates between two validations; the last step is always followed by one.
        save_interval: updates between two saves; the last step is always followed by one.
    """

    total_steps: int
    accumulation_steps: int = 1
    log_interval: int = 10
    eval_interval: int = 0
    save_interval: int = 0


def train(
    state: TrainState,
    source: BatchSource,
    objective: Objective,
    plan: LoopPlan,
    *,
    on_metrics: Callable[[StepMetrics], None],
    on_validate: Callable[[int], None],
    on_save: Callable[[int], str],
    last_saved: str = "",
    emit: Emit = no_op,
) -> None:
    """Makes updates from `state.step` to `plan.total_steps`.

    Where the data continues follows from `state.step` alone: batch `step % batches` of epoch `step // batches`.

    Args:
        state: changed in place; its step says where to begin.
        source: of global batches.
        objective: what is trained.
        plan: when to log, validate, save.
        on_metrics: is given every update's numbers, in order, once they are known to be finite.
        on_validate: is called with the step after which to measure.
        on_save: is called with the step at which to save, and returns what it saved for an error message to name.
        last_saved: what an error message may name before the first save; empty for nothing.
        emit: listens to every step.

    Raises:
        NonFiniteError: a loss, a gradient norm or, when it is time to save, a parameter is not finite. Nothing is
            saved from that update on.
    """
    device = next(state.model.parameters()).device
    # On a CPU reading a number costs nothing; on an accelerator it makes the CPU wait, so numbers are read together.
    read_interval = 1 if device.type == "cpu" else plan.log_interval
    unread: list[tuple[StepResult, Batch]] = []
    begun_s = time.perf_counter()

    def read() -> None:
        nonlocal begun_s
        if not unread:
            return
        losses = torch.stack([result.loss for result, _ in unread]).tolist()
        norms = torch.stack([result.grad_norm for result, _ in unread]).tolist()
        tokens = torch.stack([result.tokens for result, _ in unread]).tolist()
        elapsed_s, begun_s = time.perf_counter() - begun_s, time.perf_counter()
        for (result, batch), loss, norm, count in zip(unread, losses, norms, tokens, strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NonFiniteError(
                    f"step {result.step}: loss {loss}, gradient norm {norm}. The samples of this update are "
                    f"{_list(batch.sample_ids)}. {_way_back(last_saved)}"
                )
            state.tokens += count
            on_metrics(StepMetrics(result.step, loss, norm, result.learning_rate, count, sum(tokens) / elapsed_s))
        unread.clear()

    batches = iterate(source, *divmod(state.step, source.batches_per_epoch()))
    while state.step < plan.total_steps:
        _, _, batch = next(batches)
        microbatches = batch.pad_rows(plan.accumulation_steps).to(device).split(plan.accumulation_steps)
        unread.append((train_step(state, microbatches, objective, emit), batch))

        step, is_last = state.step, state.step == plan.total_steps
        validate = is_last or _due(step, plan.eval_interval)
        save = is_last or _due(step, plan.save_interval)
        if is_last or validate or save or _due(step, read_interval):
            read()
        if validate:
            on_validate(step)
        if save:
            for name, parameter in state.model.named_parameters():
                if not bool(torch.isfinite(parameter).all()):
                    raise NonFiniteError(f"step {step}: {name} is no longer finite. {_way_back(last_saved)}")
            last_saved = on_save(step)
        if validate or save:
            begun_s = time.perf_counter()  # neither is training time


def _way_back(last_saved: str) -> str:
    if not last_saved:
        return (
            "Training has stopped and saved nothing. Look at these samples, or begin again at a smaller learning rate."
        )
    return (
        f"Training has stopped and saved nothing since {last_saved}, the last good checkpoint. Look at these samples, "
        "or continue from there, or from the one before if it has gone wrong too, with a smaller learning rate."
    )


def _due(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0


def _list(sample_ids: tuple[int, ...], most: int = 16) -> str:
    shown = ", ".join(str(i) for i in sample_ids[:most])
    return shown + (f" and {len(sample_ids) - most} more" if len(sample_ids) > most else "")
