"""One optimizer update. The lesson, the lab and the full run all call this function."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from minimind.data.batch import Batch
from minimind.trace.events import Emit, no_op
from minimind.train import distributed
from minimind.train.optim import Optimizers


class Objective(Protocol):
    """What a stage asks of the model. Stages differ in their objective and their batches, not in their loops."""

    def weight(self, batch: Batch) -> Tensor:
        """How much this batch counts: tokens for the language loss (a scalar)."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss summed over that weight (a scalar with a gradient)."""


@dataclass
class TrainState:
    """What an update changes, and the few settings it reads.

    Attributes:
        model: the module that is trained, wrapped if there is a wrapper.
        optimizers: of its parameters.
        schedule: update number (0, 1, ...) -> factor on every peak rate.
        grad_clip: largest global gradient norm that is let through; 0 never clips.
        autocast: makes the context of each forward pass.
        step: updates made so far.
        tokens: weight trained on so far.
    """

    model: nn.Module
    optimizers: Optimizers
    schedule: Callable[[int], float]
    grad_clip: float = 1.0
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext
    step: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class StepResult:
    """An update in four numbers; loss and grad_norm stay on the device until somebody reads them.

    Attributes:
        step: number of this update, from 1.
        loss: loss sum / weight over all micro-batches and ranks (a scalar).
        grad_norm: global gradient norm before the clip (a scalar).
        learning_rate: rate of the first parameter group in this update.
        tokens: weight of this update (a scalar).
    """

    step: int
    loss: Tensor
    grad_norm: Tensor
    learning_rate: float
    tokens: Tensor


def train_step(
    state: TrainState, microbatches: Sequence[Batch], objective: Objective, emit: Emit = no_op
) -> StepResult:
    """Makes one update from the micro-batches of one global batch.

    Every micro-batch's loss sum is divided by the weight of the *whole* update, on all ranks, so that neither
    accumulation nor padding nor the number of ranks changes what is learned.

    Args:
        state: changed in place.
        microbatches: this rank's share, at least one.
        objective: gives the weight and the summed loss of a micro-batch.
        emit: listens; see `minimind.trace.events`.

    Returns:
        The update's numbers, not yet checked: a loss that is not finite is the loop's business.
    """
    assert microbatches, "an update needs at least one micro-batch"
    model = state.model
    emit("step.start", step=state.step + 1, model=model)

    # 1. How much does the whole update weigh?
    weights = [objective.weight(batch) for batch in microbatches]
    total_weight = distributed.sum_over_ranks(torch.stack(weights).sum())

    # 2. Forward and backward. Gradients add up in `.grad`; ranks exchange them once, after the last micro-batch.
    loss = torch.zeros((), device=total_weight.device)
    for index, (batch, weight) in enumerate(zip(microbatches, weights, strict=True)):
        emit("batch", index=index, batch=batch)
        is_last = index == len(microbatches) - 1
        with distributed.synchronised(model, is_last):
            with state.autocast():
                loss_sum = objective.loss(model, batch)
            emit("micro.loss", index=index, loss_sum=loss_sum, weight=weight)
            (loss_sum / total_weight * distributed.world_size()).backward()
        loss += loss_sum.detach() / total_weight
    loss = distributed.sum_over_ranks(loss)

    # 3. Measure the gradient, and shorten it if it is too long.
    grad_norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    emit("grads.ready", model=model, grad_norm=grad_norm)
    if state.grad_clip > 0:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), state.grad_clip, grad_norm)
    emit("grads.clipped", model=model)

    # 4. Set the rate, move the parameters, forget the gradient.
    learning_rate = state.optimizers.set_rate(state.schedule(state.step))
    state.optimizers.step()
    emit("optim.done", model=model, learning_rate=learning_rate)
    state.optimizers.zero_grad()

    state.step += 1
    result = StepResult(state.step, loss, grad_norm, learning_rate, total_weight)
    emit("step.end", result=result)
    return result
