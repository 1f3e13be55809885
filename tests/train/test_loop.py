"""Updates in a row: what is called when, where a run continues, and when it stops."""

import math

import pytest
import torch

from minimind.objectives.next_token import NextToken
from minimind.train.loop import LoopPlan, NonFiniteError, train
from minimind.train.optim import adamw
from minimind.train.step import TrainState
from tests import tiny


class Diary:
    """Takes every call of the loop, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.metrics = []

    def run(self, state: TrainState, source, plan: LoopPlan, objective=None, **changes) -> None:
        def on_metrics(metrics) -> None:
            self.metrics.append(metrics)
            self.lines.append(("metrics", metrics.step))

        def on_save(step: int) -> str:
            self.lines.append(("save", step))
            return f"checkpoint-{step}"

        calls = {
            "on_metrics": on_metrics,
            "on_validate": lambda step: self.lines.append(("validate", step)),
            "on_save": on_save,
            **changes,
        }
        train(state, source, objective or NextToken(), plan, **calls)


def state_of(step: int = 0) -> TrainState:
    model = tiny.model(num_hidden_layers=1)
    return TrainState(model, adamw(model, 1e-2), lambda step: 1 / (1 + step), step=step)


class Broken(NextToken):
    """Gives a loss that is not a number in one update."""

    def __init__(self, at: int, value: float):
        self.at, self.value, self.calls = at, value, 0

    def loss(self, model, batch):
        self.calls += 1
        return super().loss(model, batch) * (self.value if self.calls == self.at else 1.0)


def test_after_each_update_metrics_then_validation_then_save():
    diary = Diary()
    diary.run(state_of(), tiny.Source(), LoopPlan(total_steps=7, eval_interval=2, save_interval=3))
    assert diary.lines == [
        ("metrics", 1),
        ("metrics", 2),
        ("validate", 2),
        ("metrics", 3),
        ("save", 3),
        ("metrics", 4),
        ("validate", 4),
        ("metrics", 5),
        ("metrics", 6),
        ("validate", 6),
        ("save", 6),
        ("metrics", 7),
        ("validate", 7),
        ("save", 7),
    ]


def test_the_last_update_is_always_measured_and_saved():
    diary = Diary()
    diary.run(state_of(), tiny.Source(), LoopPlan(total_steps=2))
    assert diary.lines == [("metrics", 1), ("metrics", 2), ("validate", 2), ("save", 2)]


def test_a_run_that_has_arrived_makes_no_update():
    diary = Diary()
    state = state_of(step=3)
    before = [p.clone() for p in state.model.parameters()]
    diary.run(state, tiny.Source(), LoopPlan(total_steps=3))
    assert diary.lines == []
    assert all(torch.equal(p, q) for p, q in zip(before, state.model.parameters(), strict=True))


def test_the_metrics_are_the_update_s_own_numbers():
    diary, results = Diary(), []

    def emit(name, /, **payload):
        if name == "step.end":
            results.append(payload["result"])

    state = state_of()
    diary.run(state, tiny.Source(), LoopPlan(total_steps=3, accumulation_steps=2, log_interval=2), emit=emit)
    for metrics, result in zip(diary.metrics, results, strict=True):
        assert metrics.step == result.step
        assert metrics.loss == result.loss.item()
        assert metrics.grad_norm == result.grad_norm.item()
        assert metrics.learning_rate == result.learning_rate == pytest.approx(1e-2 / metrics.step)
        assert metrics.tokens == 28 - 4
        assert metrics.tokens_per_s > 0
    assert state.tokens == 3 * (28 - 4)


@pytest.mark.parametrize("step", [0, 3, 4, 5, 9])
def test_where_the_data_continues_follows_from_the_step_alone(step):
    source = tiny.Source(batches=4)
    Diary().run(state_of(step), source, LoopPlan(total_steps=step + 3))
    assert source.asked == [divmod(number, 4) for number in range(step, step + 3)]


def test_three_updates_and_three_more_are_six():
    six, halves = state_of(), state_of()
    plan = LoopPlan(total_steps=6, accumulation_steps=2)
    Diary().run(six, tiny.Source(), plan)
    Diary().run(halves, tiny.Source(), LoopPlan(total_steps=3, accumulation_steps=2))
    Diary().run(halves, tiny.Source(), plan)
    assert all(torch.equal(p, q) for p, q in zip(six.model.parameters(), halves.model.parameters(), strict=True))
    assert six.tokens == halves.tokens


def test_rows_that_do_not_fill_the_microbatches_are_all_trained():
    seen = []

    def emit(name, /, **payload):
        if name == "batch":
            seen.append((payload["batch"].input_ids.shape[0], payload["batch"].sample_ids))

    diary = Diary()
    source = tiny.Source(lengths=(9, 6, 9))
    diary.run(state_of(), source, LoopPlan(total_steps=1, accumulation_steps=2), emit=emit)
    assert [rows for rows, _ in seen] == [2, 2]
    assert [i for _, samples in seen for i in samples] == [100, 101, 102]
    assert diary.metrics[0].tokens == 24 - 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_nothing_is_saved_after(value):
    diary, state = Diary(), state_of()
    plan = LoopPlan(total_steps=9, save_interval=2, eval_interval=1)
    with pytest.raises(NonFiniteError) as raised:
        diary.run(state, tiny.Source(), plan, Broken(at=4, value=value))
    sentence = str(raised.value)
    assert "step 4" in sentence
    assert "400, 401, 402, 403" in sentence  # the samples of the fourth batch
    assert "checkpoint-2" in sentence
    assert str(value) in sentence or "nan" in sentence
    assert diary.lines[-3:] == [("save", 2), ("metrics", 3), ("validate", 3)]


def test_a_gradient_that_is_no_number_stops_the_run_too():
    class Steep(NextToken):
        def loss(self, model, batch):
            loss = super().loss(model, batch)
            loss.register_hook(lambda gradient: gradient * math.inf)
            return loss

    diary = Diary()
    with pytest.raises(NonFiniteError, match=r"step 1: loss \d.*saved nothing\."):
        diary.run(state_of(), tiny.Source(), LoopPlan(total_steps=3, save_interval=1), Steep())
    assert diary.lines == []


def test_of_many_samples_the_first_are_named():
    source = tiny.Source(lengths=(3,) * 20)
    with pytest.raises(NonFiniteError, match=r"100, 101, .*115 and 4 more"):
        Diary().run(state_of(), source, LoopPlan(total_steps=1), Broken(at=1, value=math.nan))


def test_ruined_parameters_are_not_saved_although_the_loss_was_finite():
    diary, state = Diary(), state_of()

    def ruin(name, /, **payload):
        if name == "step.end" and payload["result"].step == 4:
            with torch.no_grad():
                next(state.model.parameters()).fill_(math.nan)

    with pytest.raises(NonFiniteError, match=r"step 4: .* no longer finite.*checkpoint-2"):
        diary.run(state, tiny.Source(), LoopPlan(total_steps=9, save_interval=2), NextToken(), emit=ruin)
    assert ("save", 4) not in diary.lines


def test_one_ruined_number_is_enough_that_nothing_is_saved():
    diary, state = Diary(), state_of()

    def ruin(name, /, **payload):
        if name == "step.end":
            with torch.no_grad():
                next(state.model.parameters())[-1, -1] = math.nan

    with pytest.raises(NonFiniteError, match=r"step 1: .* no longer finite"):
        diary.run(state, tiny.Source(), LoopPlan(total_steps=1), emit=ruin)
    assert ("save", 1) not in diary.lines
