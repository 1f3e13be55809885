"""How long a run would take: from real updates, without leaving a trace in the process."""

import pytest
import torch

from minimind.config import preset
from minimind.readiness import FIGURES, estimate, pace
from minimind.train.step import train_step


def test_a_small_update_is_made_as_it_is_and_the_whole_run_is_so_many_of_them():
    estimated = estimate(preset("lab"))
    assert estimated.measured
    assert 1e-4 < estimated.update_s < 30
    assert estimated.total_s == pytest.approx(8 * estimated.update_s)
    assert estimate(preset("lab").replace(max_steps=0)).total_s is None


def test_a_large_update_is_scaled_from_a_small_one_of_equal_width(monkeypatch):
    made = []

    def counted(state, microbatches, objective, emit):
        made.append((state.model.config.hidden_size, sum(len(batch.input_ids) for batch in microbatches)))
        return train_step(state, microbatches, objective, emit)

    monkeypatch.setattr(pace, "train_step", counted)
    estimated = estimate(FIGURES["64M"], updates=1)
    assert made == [(768, 1), (768, 1)], "a warm-up and one that counts, both of one row"
    assert not estimated.measured
    assert estimated.needs.parameters == 63_912_192
    assert estimated.update_s > 1, "a hundred million million operations"


def test_work_with_tokens_and_work_with_parameters_are_scaled_apart(monkeypatch):
    monkeypatch.setattr(pace, "_time_of_update", lambda part, device, updates, threads: (2.0, 0.5))
    monkeypatch.setitem(pace.AFFORDABLE_FLOPS, "cpu", 2 * 10**8)
    run = preset("lab").replace(accumulation_steps=8, batch_size=1)
    assert pace._affordable(run, 6400, 2 * 10**8).run == run.replace(accumulation_steps=1)
    estimated = estimate(run)
    assert not estimated.measured
    assert estimated.update_s == pytest.approx(8 * 2.0 + 0.5), "eight rows, and the parameters once"
    assert estimate(run.replace(threads=4)).update_s == pytest.approx(8 * 2.0 / 4 + 0.5)


def test_a_smaller_update_is_made_with_one_thread_and_the_update_itself_with_the_runs(monkeypatch):
    seen = []

    def counted(state, microbatches, objective, emit):
        seen.append(torch.get_num_threads())
        return train_step(state, microbatches, objective, emit)

    monkeypatch.setattr(pace, "train_step", counted)
    estimate(preset("lab").replace(threads=2), updates=1)
    estimate(FIGURES["64M"].replace(threads=2), updates=1)
    assert seen == [2, 2, 1, 1]


def test_measuring_changes_no_random_number_and_no_thread():
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    estimate(preset("lab").replace(threads=threads + 1, dropout=0.1), updates=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_device_that_is_not_here_is_one_sentence():
    with pytest.raises(ValueError, match="device='abacus'"):
        estimate(preset("lab"), "abacus")
