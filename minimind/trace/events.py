"""The events that a training step emits, in order. A listener is any function `emit(name, **payload)`.

    step.start     step, model
    batch          index, batch                     once for each micro-batch
    micro.loss     index, loss_sum, weight          scalar tensors; loss_sum is not yet divided
    grads.ready    model, grad_norm                 gradients of the whole update, before the clip
    grads.clipped  model
    optim.done     model, learning_rate
    step.end       result

A listener reads; it must not write to what it is handed, and must not keep a tensor without copying it.
"""

from typing import Any, Protocol


class Emit(Protocol):
    """Something that listens to a step."""

    def __call__(self, name: str, /, **payload: Any) -> None:
        """Takes one event."""


def no_op(name: str, /, **payload: Any) -> None:
    """The listener that is there when nobody listens."""
