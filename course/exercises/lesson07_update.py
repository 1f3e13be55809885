"""Lesson 7, first exercise: write the update, in order.

The checker runs the student's function where `train_step` runs. It uses plain gradient descent first, because there
the movement of a parameter *is* the gradient that was used, times the rate; so it can say which one that was. Then
AdamW, three updates in a row, must give the same loss, gradient norm and parameters as `train_step`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.kit.exercises import Exercise, Verdict, WrongAnswer
from minimind.config import MiniMindConfig
from minimind.data.batch import IGNORE_INDEX, Batch
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.train.optim import Optimizers, adamw
from minimind.train.step import Objective, TrainState, train_step

Update = Callable[[TrainState, Sequence[Batch], Objective], Any]

PEAK_RATE = 0.5
RATES = (0.25, 0.75, 0.5)
"""The schedule of the check: each update has a rate of its own, so that one set too late shows."""
CLIP = 0.05
RTOL = 1e-4


def update_in_order(state: TrainState, microbatches: Sequence[Batch], objective: Objective) -> tuple[Tensor, Tensor]:
    """The reference answer."""
    total_weight = sum(objective.weight(batch) for batch in microbatches)
    loss = torch.zeros(())
    for batch in microbatches:
        share = objective.loss(state.model, batch) / total_weight
        share.backward()
        loss = loss + share.detach()
    parameters = list(state.model.parameters())
    grad_norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if state.grad_clip > 0:
        torch.nn.utils.clip_grads_with_norm_(parameters, state.grad_clip, grad_norm)
    state.optimizers.set_rate(state.schedule(state.step))
    state.optimizers.step()
    state.optimizers.zero_grad()
    state.step += 1
    return loss, grad_norm


def check_update(update: Update) -> Verdict:
    """Says whether an update equals `train_step`'s, and if not, what it did instead."""
    state = _make_state(_gradient_descent)
    before = _flat(state)
    returned = update(state, _microbatches(0), NextToken())
    if returned is None:
        return Verdict.wrong("The function returns nothing; return the pair `(loss, grad_norm)`.")
    if not (isinstance(returned, tuple) and len(returned) == 2):
        return Verdict.wrong(f"Return the pair `(loss, grad_norm)`; this returned a `{type(returned).__name__}`.")
    loss, grad_norm = (float(value) for value in returned)

    movement = before - _flat(state)
    problem = (
        _wrong_movement(movement)
        or _wrong_numbers(loss, grad_norm)
        or _wrong_afterwards(state)
        or _wrong_without_a_clip(update)
        or _wrong_in_a_row(update)
    )
    if problem is not None:
        return Verdict.wrong(problem)
    return Verdict.correct(
        "Three updates give the loss, the gradient norm and the parameters of `train_step`. Nothing else happens in "
        "pretraining; a full run only repeats it."
    )


def _wrong_movement(movement: Tensor) -> str | None:
    """Which gradient, and which rate, moved the parameters? In gradient descent movement = rate x gradient."""
    length = float(movement.norm())
    if length == 0:
        return "No parameter moved. Is `optimizers.step()` called, after `backward()`?"
    right = _gradient([0, 1], by_token=True)
    clipped = right * (CLIP / right.norm())
    expected = PEAK_RATE * RATES[0] * clipped
    if _equal(movement, expected):
        return None
    candidates = {
        "Only the first micro-batch's gradient was used. Call `backward()` for every micro-batch; gradients add up.": (
            _gradient([0], by_token=True)
        ),
        "Only the last micro-batch's gradient was used. Gradients add up in `.grad` by themselves: do not clear them "
        "between micro-batches.": _gradient([1], by_token=True),
        "This is a mean of means: each micro-batch was divided by its own weight, so a token in a short one counts "
        "more. Divide every loss sum by the weight of the whole update.": _gradient([0, 1], by_token=False),
    }
    if length < 0.01 * float(expected.norm()):
        return (
            f"The parameters moved only {length / float(expected.norm()):.2g} times as far as they should. `set_rate` "
            "takes the schedule's factor itself, not a learning rate."
        )
    direction = movement / length
    for sentence, gradient in candidates.items():
        if _equal(direction, gradient / gradient.norm()) and not _equal(direction, right / right.norm()):
            return sentence
    if not _equal(direction, right / right.norm()):
        return (
            "The parameters moved in another direction than the gradient of the update's loss. Is there one clip, by "
            "norm, and one step for all micro-batches, after the last `backward()`?"
        )
    ratio = length / float(expected.norm())
    unclipped = float(right.norm()) / CLIP
    summed = unclipped * float(sum(NextToken().weight(batch) for batch in _microbatches(0)))
    if _near(ratio, unclipped) or _near(ratio, unclipped / RATES[0]) or _near(ratio, summed):
        return (
            f"The gradient (norm {float(right.norm()):.3g}) moved the parameters at its full length, but grad_clip is "
            f"{CLIP}. Clip after the last `backward()` and before `optimizers.step()`."
        )
    if _near(ratio, 1 / RATES[0]):
        return (
            f"The parameters moved as at the peak rate {PEAK_RATE}, but the schedule says {RATES[0]} of it for this "
            "update. Set the rate before `optimizers.step()`, not after it."
        )
    if _near(ratio, RATES[1] / RATES[0]):
        return "This is the rate of the next update. Ask the schedule for `state.step` before adding 1 to it."
    return f"The direction is right, but the movement is {ratio:.3g} times as long as it should be."


def _wrong_numbers(loss: float, grad_norm: float) -> str | None:
    model = _make_state(_gradient_descent).model
    objective, batches = NextToken(), _microbatches(0)
    with torch.no_grad():
        sums = [float(objective.loss(model, batch)) for batch in batches]
    weights = [float(objective.weight(batch)) for batch in batches]
    expected = sum(sums) / sum(weights)
    norm = float(_gradient([0, 1], by_token=True).norm())
    labels = float(sum((batch.labels != IGNORE_INDEX).sum() for batch in batches))
    if not _near(loss, expected):
        if _near(loss, norm) and _near(grad_norm, expected):
            return "The two numbers are swapped: return `(loss, grad_norm)`."
        if _near(loss, sum(sums) / labels):
            return (
                f"The loss was divided by all {labels:.0f} labels that are not -100. The first of each row answers no "
                "position; `objective.weight` counts those that are predicted."
            )
        if _near(loss, sum(s / w for s, w in zip(sums, weights, strict=True)) / len(sums)):
            return "The returned loss is a mean of means. Divide the summed loss by the summed weight."
        if _near(loss, sums[-1] / sum(weights)) or _near(loss, sums[-1] / weights[-1]):
            return "The returned loss is the last micro-batch's alone; add the shares of all of them."
        if _near(loss, sum(sums)):
            return "The returned loss is the sum over tokens; divide it by the total weight."
        return f"The returned loss is {loss:.4g}; the loss of this update, per token, is {expected:.4g}."
    if not _near(grad_norm, norm):
        if _near(grad_norm, norm * sum(weights)):
            return (
                f"The returned gradient norm is {sum(weights):.0f} times too large, and that is the number "
                "of tokens: divide the loss by the total weight before `backward()`, not after it."
            )
        if _near(grad_norm, CLIP):
            return "The returned gradient norm is the one after the clip. Return the one from before: it shows trouble."
        return f"The returned gradient norm is {grad_norm:.4g}; before the clip it is {norm:.4g}."
    return None


def _wrong_afterwards(state: TrainState) -> str | None:
    left = [name for name, p in state.model.named_parameters() if p.grad is not None and bool(p.grad.any())]
    if left:
        return (
            f"After the update {len(left)} parameters still hold a gradient, which the next `backward()` would add to. "
            "Call `optimizers.zero_grad()` when the parameters have moved."
        )
    if state.step != 1:
        return f"`state.step` is {state.step} after one update; add 1, or the schedule stands still."
    return None


def _wrong_without_a_clip(update: Update) -> str | None:
    """A gradient that is shorter than grad_clip, and grad_clip = 0, must both be left as they are."""
    right = _gradient([0, 1], by_token=True)
    for clip in (100.0 * float(right.norm()), 0.0):
        state = _make_state(_gradient_descent)
        state.grad_clip = clip
        before = _flat(state)
        update(state, _microbatches(0), NextToken())
        if not _equal(before - _flat(state), PEAK_RATE * RATES[0] * right):
            if clip:
                return (
                    f"With grad_clip={clip:.3g} the gradient (norm {float(right.norm()):.3g}) is short enough, and "
                    "must stay as it is. The clip only shortens."
                )
            return "With grad_clip=0 nothing is to be clipped; ask `if state.grad_clip > 0` first."
    return None


def _wrong_in_a_row(update: Update) -> str | None:
    """Three updates with AdamW beside three of `train_step`."""
    ours, theirs = _make_state(_adamw), _make_state(_adamw)
    for number in range(len(RATES)):
        loss, grad_norm = (float(value) for value in update(ours, _microbatches(number), NextToken()))
        result = train_step(theirs, _microbatches(number), NextToken())
        for name, mine, reference in (
            ("loss", loss, float(result.loss)),
            ("gradient norm", grad_norm, float(result.grad_norm)),
        ):
            if not _near(mine, reference):
                return (
                    f"With AdamW, update {number + 1}: the {name} is {mine:.4g}, and `train_step` has {reference:.4g}."
                )
        if not torch.allclose(_flat(ours), _flat(theirs), rtol=RTOL, atol=1e-4):
            return f"With AdamW, the parameters leave `train_step`'s after update {number + 1}."
    return None


def _gradient(which: Sequence[int], by_token: bool) -> Tensor:
    """The gradient of some micro-batches of the first update, per token of the update or as a mean of means."""
    model = _make_state(_gradient_descent).model
    objective, batches = NextToken(), _microbatches(0)
    total = sum(objective.weight(batch) for batch in batches)
    for index in which:
        divisor = total if by_token else objective.weight(batches[index]) * len(batches)
        (objective.loss(model, batches[index]) / divisor).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def _make_state(optimizers: Callable[[torch.nn.Module], Optimizers]) -> TrainState:
    config = MiniMindConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = MiniMindForCausalLM(config)
    return TrainState(model, optimizers(model), schedule=lambda step: RATES[min(step, len(RATES) - 1)], grad_clip=CLIP)


def _gradient_descent(model: torch.nn.Module) -> Optimizers:
    return Optimizers({"sgd": torch.optim.SGD(model.parameters(), lr=PEAK_RATE)})


def _adamw(model: torch.nn.Module) -> Optimizers:
    return adamw(model, learning_rate=1e-2)


def _microbatches(update: int) -> list[Batch]:
    """Two micro-batches of very different weight: one full, one mostly padding."""
    generator = torch.Generator().manual_seed(100 + update)
    batches = []
    for supervised in (12, 3):
        ids = torch.randint(3, 32, (2, 12), generator=generator)
        labels = ids.clone()
        labels[:, supervised:] = IGNORE_INDEX
        batches.append(Batch(ids, labels, None, None, None, sample_ids=(0, 1)))
    return batches


def _flat(state: TrainState) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in state.model.parameters()])


def _equal(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).norm() <= 1e-3 * b.norm())


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-3 * abs(b)


# --- the bank: what students write ------------------------------------------------------------------------------


def _variant(
    *,
    divide: str = "all",
    clip: str = "before",
    rate: str = "before",
    clear: str = "after",
    which: slice = slice(None),
    loss_of: str = "all",
    norm: str = "before",
    count: bool = True,
) -> Update:
    """`update_in_order` with one thing done differently."""

    def update(state: TrainState, microbatches: Sequence[Batch], objective: Objective) -> tuple[Tensor, Tensor]:
        weights = [objective.weight(batch) for batch in microbatches]
        total, loss = sum(weights), torch.zeros(())
        for batch, weight in list(zip(microbatches, weights, strict=True))[which]:
            if clear == "between":
                state.optimizers.zero_grad()
            divisor = {"all": total, "own": weight * len(weights), "none": torch.tensor(1), "late": torch.tensor(1)}[
                divide
            ]
            share = objective.loss(state.model, batch) / divisor
            share.backward()
            loss = share.detach() if loss_of == "last" else loss + share.detach()
        parameters = list(state.model.parameters())
        grad_norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if clip == "before" and state.grad_clip > 0 or clip == "even at 0":
            torch.nn.utils.clip_grad_norm_(parameters, state.grad_clip)
        elif clip == "to length":
            for p in parameters:
                if p.grad is not None and state.grad_clip > 0:
                    p.grad.mul_(state.grad_clip / grad_norm)
        if rate == "before":
            state.optimizers.set_rate(state.schedule(state.step))
        elif rate == "absolute":
            state.optimizers.set_rate(state.schedule(state.step) * 5e-4)
        elif rate == "next":
            state.optimizers.set_rate(state.schedule(state.step + 1))
        state.optimizers.step()
        if clip == "after":
            torch.nn.utils.clip_grad_norm_(parameters, state.grad_clip)
        if rate == "after":
            state.optimizers.set_rate(state.schedule(state.step))
        if clear == "after":
            state.optimizers.zero_grad()
        state.step += int(count)
        if divide == "late":
            loss = loss / total
        if norm == "swapped":
            return grad_norm, loss
        return loss, torch.tensor(state.grad_clip) if norm == "after" else grad_norm

    return update


def _never_steps(state: TrainState, microbatches: Sequence[Batch], objective: Objective) -> tuple[Tensor, Tensor]:
    loss = objective.loss(state.model, microbatches[0])
    loss.backward()
    return loss.detach(), torch.zeros(())


UPDATE = Exercise(
    key="07-update",
    title="The update, in order",
    task=(
        "Write `update(state, microbatches, objective)`: one optimizer update over all micro-batches. It returns the "
        "pair `(loss, grad_norm)`: the loss per token, and the gradient norm before the clip."
    ),
    check=check_update,
    reference=update_in_order,
    wrong_answers=(
        WrongAnswer("the optimizer never steps", _never_steps, "No parameter moved"),
        WrongAnswer("mean of means", _variant(divide="own"), "mean of means"),
        WrongAnswer("no clip", _variant(clip="never"), "Clip after"),
        WrongAnswer("clip after the step", _variant(clip="after"), "Clip after"),
        WrongAnswer("rate set after the step", _variant(rate="after"), "Set the rate before"),
        WrongAnswer("rate never set", _variant(rate="never"), "Set the rate before"),
        WrongAnswer("rate of the next step", _variant(rate="next"), "rate of the next update"),
        WrongAnswer("gradients cleared between micro-batches", _variant(clear="between"), "Only the last micro-batch"),
        WrongAnswer("gradients never cleared", _variant(clear="never"), "still hold a gradient"),
        WrongAnswer("first micro-batch only", _variant(which=slice(0, 1)), "Only the first micro-batch"),
        WrongAnswer("loss of the last micro-batch", _variant(loss_of="last"), "last micro-batch's alone"),
        WrongAnswer("loss not divided", _variant(divide="none"), "divide it by the total weight"),
        WrongAnswer("divided after backward", _variant(divide="late"), "before `backward()`"),
        WrongAnswer("always scaled to the clip", _variant(clip="to length"), "The clip only shortens"),
        WrongAnswer("clipped to nothing at 0", _variant(clip="even at 0"), "nothing is to be clipped"),
        WrongAnswer("set_rate given a learning rate", _variant(rate="absolute"), "not a learning rate"),
        WrongAnswer("pair swapped", _variant(norm="swapped"), "swapped"),
        WrongAnswer("norm after the clip", _variant(norm="after"), "the one after the clip"),
        WrongAnswer("step not counted", _variant(count=False), "schedule stands still"),
    ),
    hints=(
        "Weigh; forward and backward for each micro-batch; clip; then set the rate, step, clear, count. The four "
        "things of the text are these, the last one in its four parts.",
        "`sum(objective.weight(batch) for batch in microbatches)` weighs the whole update. Divide each micro-batch's "
        "loss sum by *that* before `backward()`.",
        "`torch.nn.utils.get_total_norm([p.grad for p in state.model.parameters()])` measures. "
        "`torch.nn.utils.clip_grads_with_norm_(parameters, state.grad_clip, norm)` clips, and stands behind "
        "`if state.grad_clip > 0`. Then `state.optimizers.set_rate(state.schedule(state.step))`, `.step()`, "
        "`.zero_grad()`.",
    ),
)

EXERCISES = (UPDATE,)
