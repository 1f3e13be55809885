"""One update, against updates written in other ways."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from minimind.data.batch import Batch
from minimind.objectives.next_token import NextToken
from minimind.train.optim import adamw, muon_and_adamw
from minimind.train.step import TrainState, train_step
from tests import tiny

LENGTHS = (9, 3, 7, 9, 2, 5, 9, 4)  # micro-batches of very different weight
RATES = (1e-2, 7e-3, 4e-3)
DECAY, BETAS, EPS, CLIP = 0.1, (0.9, 0.95), 1e-8, 1.0


def state_of(model, clip: float = CLIP, schedule=lambda step: 1.0) -> TrainState:
    return TrainState(model, adamw(model, RATES[0], DECAY, BETAS), schedule, grad_clip=clip)


class Gradients:
    """Keeps a copy of the gradients before and after the clip."""

    def __init__(self) -> None:
        self.ready: dict[str, Tensor] = {}
        self.clipped: dict[str, Tensor] = {}

    def emit(self, name: str, /, **payload) -> None:
        if name in ("grads.ready", "grads.clipped"):
            kept = {n: p.grad.clone() for n, p in payload["model"].named_parameters()}
            setattr(self, name.removeprefix("grads."), kept)


def norm(tensors: dict[str, Tensor]) -> float:
    return sum(float(tensor.double().square().sum()) for tensor in tensors.values()) ** 0.5


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Relative, over all parameters together."""
    return norm({name: one[name].double() - other[name].double() for name in one}) / norm(other)


# --- accumulation, padding, clip --------------------------------------------------------------------


def padded_batch() -> Batch:
    """The documents of `tiny.batch(LENGTHS)` in wider rows, and rows that train nothing after them."""
    batch = tiny.batch(LENGTHS)

    def widen(tensor: Tensor, value: int) -> Tensor:
        return F.pad(tensor, (0, 5), value=value)

    return Batch(
        input_ids=widen(batch.input_ids, 0),
        labels=widen(batch.labels, -100),
        attention_mask=widen(batch.attention_mask, 0),
        document_ids=None,
        position_ids=None,
        sample_ids=batch.sample_ids,
    ).pad_rows(12)


WAYS = {
    "two": tiny.batch(LENGTHS).split(2),
    "four": tiny.batch(LENGTHS).split(4),
    "eight": tiny.batch(LENGTHS).split(8),
    "padded": [padded_batch()],
    "padded and accumulated": padded_batch().split(4),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_big_batch_an_accumulated_one_and_a_padded_one_are_the_same_update(way):
    results, gradients = [], []
    for microbatches in ([tiny.batch(LENGTHS)], WAYS[way]):
        kept = Gradients()
        model = tiny.lively(tiny.model())
        results.append(train_step(state_of(model), microbatches, NextToken(), kept.emit))
        gradients.append(kept.ready)
    whole, parts = results
    assert distance(gradients[1], gradients[0]) <= 1e-6
    assert parts.loss.item() == pytest.approx(whole.loss.item(), rel=1e-6)
    assert parts.grad_norm.item() == pytest.approx(whole.grad_norm.item(), rel=1e-6)
    assert parts.tokens.item() == whole.tokens.item() == sum(LENGTHS) - len(LENGTHS)


def test_a_microbatch_with_nothing_to_learn_changes_nothing():
    batch = tiny.batch((6, 6))
    empty = Batch(batch.input_ids, torch.full_like(batch.labels, -100), None, None, None, (7, 8))
    kept = [Gradients(), Gradients()]
    for microbatches, one in zip(([batch], [empty, batch, empty]), kept, strict=True):
        train_step(state_of(tiny.lively(tiny.model())), microbatches, NextToken(), one.emit)
    assert distance(kept[1].ready, kept[0].ready) <= 1e-6


@pytest.mark.parametrize("clip", [0.0, 0.01, 1e6])
def test_a_gradient_that_is_too_long_is_shortened_and_no_other(clip):
    kept = Gradients()
    result = train_step(state_of(tiny.lively(tiny.model()), clip), [tiny.batch()], NextToken(), kept.emit)
    before, after = norm(kept.ready), norm(kept.clipped)
    assert result.grad_norm.item() == pytest.approx(before, rel=1e-5)
    assert after == pytest.approx(0.01 if clip == 0.01 else before, rel=1e-4)
    if clip == 0.01:  # shorter, and the same direction
        expected = {name: g * (after / before) for name, g in kept.ready.items()}
        assert distance(kept.clipped, expected) < 1e-5


# --- the order of things ----------------------------------------------------------------------------


def test_the_events_come_in_the_documented_order():
    events = []
    state = state_of(tiny.model())
    state.step = 4
    microbatches = tiny.batch().split(2)
    result = train_step(state, microbatches, NextToken(), lambda name, /, **payload: events.append((name, payload)))
    assert [name for name, _ in events] == [
        "step.start",
        "batch",
        "micro.loss",
        "batch",
        "micro.loss",
        "grads.ready",
        "grads.clipped",
        "optim.done",
        "step.end",
    ]
    assert events[0][1] == {"step": 5, "model": state.model}
    assert [payload["index"] for name, payload in events if name in ("batch", "micro.loss")] == [0, 0, 1, 1]
    assert [payload["batch"] for name, payload in events if name == "batch"] == microbatches
    assert [int(payload["weight"]) for name, payload in events if name == "micro.loss"] == [8 + 5, 8 + 3]
    assert events[7][1]["learning_rate"] == result.learning_rate == 1e-2
    assert events[-1][1]["result"] is result
    assert result.step == state.step == 5


def test_the_rate_is_set_before_the_parameters_move():
    factors = [0.0, 0.5]
    model = tiny.model()
    state = state_of(model, schedule=lambda step: factors[step])
    before = copy.deepcopy(model.state_dict())
    assert train_step(state, [tiny.batch()], NextToken()).learning_rate == 0.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert train_step(state, [tiny.batch()], NextToken()).learning_rate == 0.5 * RATES[0]
    assert all(not torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_no_gradient_is_left_for_the_next_update():
    model = tiny.model()
    state = state_of(model)
    train_step(state, [tiny.batch()], NextToken())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("optimizers", [adamw, lambda model, rate: muon_and_adamw(model, rate, 0.05)])
def test_no_number_is_read_from_the_device_in_a_step(optimizers, monkeypatch):
    model = tiny.model()
    state = TrainState(model, optimizers(model, 1e-2), lambda step: 1.0)
    microbatches = tiny.batch().split(2)
    train_step(state, microbatches, NextToken())  # what is made once is made here

    def refuse(self: Tensor, *args, **kwargs):
        raise AssertionError("a number was read from a tensor, which would make an accelerator wait")

    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "numpy", "__float__", "__int__", "__bool__", "__index__"):
            patch.setattr(Tensor, name, refuse)
        result = train_step(state, microbatches, NextToken())
    assert all(isinstance(value, Tensor) for value in (result.loss, result.grad_norm, result.tokens))
    assert not result.loss.requires_grad


def test_the_forward_pass_runs_in_the_state_s_autocast():
    seen = []

    class Watching(NextToken):
        def loss(self, model, batch):
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().loss(model, batch)

    state = state_of(tiny.model())
    state.autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    result = train_step(state, tiny.batch().split(2), Watching())
    assert seen == [True, True]
    assert result.loss.dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in state.model.parameters())
    assert not torch.is_autocast_enabled("cpu")


def test_the_loss_of_an_update_is_the_mean_over_its_tokens():
    model = tiny.lively(tiny.model()).eval()
    batch = tiny.batch()
    expected = model(batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    result = train_step(state_of(model), batch.split(4), NextToken())
    torch.testing.assert_close(result.loss, expected.detach(), rtol=1e-6, atol=0)


# --- other ways to write it -------------------------------------------------------------------------


def mean_loss(model, batch: Batch) -> Tensor:
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits[:, :-1]
    targets = batch.labels[:, 1:]
    chosen = targets != -100
    return F.cross_entropy(logits[chosen], targets[chosen])


def test_three_updates_equal_adamw_written_from_its_formula():
    ours, model = tiny.model(), tiny.model()
    state = state_of(ours, schedule=lambda step: RATES[step] / RATES[0])
    averages = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    squares = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for step, rate in enumerate(RATES):
        batch = tiny.batch(LENGTHS, seed=step)
        result = train_step(state, batch.split(2), NextToken())
        names, parameters = zip(*model.named_parameters(), strict=True)
        loss = mean_loss(model, batch)
        gradients = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
        length = norm(gradients)
        assert result.grad_norm.item() == pytest.approx(length, rel=1e-5)
        assert length > CLIP  # or the clip below is not tested
        for name, parameter in zip(names, parameters, strict=True):
            gradient = gradients[name] * min(1.0, CLIP / length)
            averages[name] = BETAS[0] * averages[name] + (1 - BETAS[0]) * gradient
            squares[name] = BETAS[1] * squares[name] + (1 - BETAS[1]) * gradient**2
            average = averages[name] / (1 - BETAS[0] ** (step + 1))
            square = squares[name] / (1 - BETAS[1] ** (step + 1))
            decay = DECAY if parameter.dim() == 2 else 0.0
            with torch.no_grad():
                parameter.mul_(1 - rate * decay).sub_(rate * average / (square.sqrt() + EPS))
        assert result.loss.item() == pytest.approx(loss.item(), rel=1e-5)
        assert result.learning_rate == pytest.approx(rate)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter, model.get_parameter(name), rtol=0, atol=2e-6, msg=name)


def test_three_updates_equal_those_of_qwen3_in_a_plain_torch_loop():
    ours = tiny.model()
    theirs = Qwen3ForCausalLM(Qwen3Config(**{**ours.config.to_dict(), "attention_dropout": 0.0}))
    theirs.load_state_dict(ours.state_dict())
    theirs.train()
    groups = [
        {"params": [p for p in theirs.parameters() if p.dim() == 2], "weight_decay": DECAY},
        {"params": [p for p in theirs.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATES[0], betas=BETAS, eps=EPS, foreach=False, fused=False)
    state = state_of(ours, schedule=lambda step: RATES[step] / RATES[0])
    for step, rate in enumerate(RATES):
        batch = tiny.batch(LENGTHS, seed=step)
        train_step(state, batch.split(4), NextToken())
        optimizer.zero_grad()
        theirs(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter, theirs.get_parameter(name), rtol=0, atol=2e-6, msg=name)
