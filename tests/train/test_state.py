"""Everything that decides the next update goes into a snapshot and comes back out of it."""

import hashlib
import random

import numpy as np
import pytest
import torch

from minimind.objectives.next_token import NextToken
from minimind.train.checkpoint import CheckpointError, commit, load
from minimind.train.optim import adamw, muon_and_adamw
from minimind.train.state import capture, restore, sha256_of
from minimind.train.step import TrainState, train_step
from tests import tiny

KINDS = {"adamw": lambda model: adamw(model, 1e-2, 0.1), "muon": lambda model: muon_and_adamw(model, 1e-2, 0.05, 0.1)}


def state_of(kind: str = "adamw", **changes) -> TrainState:
    model = tiny.model(dropout=0.2, **changes)
    return TrainState(model, KINDS[kind](model), lambda step: 1 / (1 + step))


def advance(state: TrainState, source: tiny.Source, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        batch = source.batch(*divmod(state.step, source.batches_per_epoch()))
        result = train_step(state, batch.split(2), NextToken())
        state.tokens += int(result.tokens)
        losses.append(result.loss.item())
    return losses


def saved(state: TrainState, source: tiny.Source, folder):
    """A snapshot that has been on the disk."""
    return load(commit(folder, capture(state, source, {"seed": 1}, {"config": "c" * 64})))


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_state_goes_on_bit_for_bit(kind, tmp_path):
    source, state = tiny.Source(batches=3), state_of(kind)
    advance(state, source, 5)
    snapshot = saved(state, source, tmp_path)
    expected = advance(state, source, 3)

    tiny.shuffle_randomness()
    fresh = state_of(kind)
    tiny.lively(fresh.model)
    advance(fresh, source, 1)  # another past, to be forgotten
    tiny.shuffle_randomness()
    restore(fresh, source, snapshot)
    assert (fresh.step, fresh.tokens) == (5, 5 * 24)
    assert advance(fresh, source, 3) == expected
    assert all(torch.equal(p, q) for p, q in zip(state.model.parameters(), fresh.model.parameters(), strict=True))
    assert (fresh.step, fresh.tokens) == (state.step, state.tokens)


def test_every_random_generator_goes_on_where_it_was(tmp_path):
    source, state = tiny.Source(), state_of()
    random.gauss(0, 1)  # leaves half of a pair behind
    np.random.standard_normal()
    snapshot = saved(state, source, tmp_path)

    def draw() -> list[float]:
        return [random.random(), random.gauss(0, 1), np.random.standard_normal(), np.random.random(), *torch.rand(2)]

    expected = draw()
    tiny.shuffle_randomness()
    np.random.seed(7)
    restore(state, source, snapshot)
    assert draw() == expected


def test_a_snapshot_says_where_the_run_is(tmp_path):
    source, state = tiny.Source(batches=3), state_of()
    advance(state, source, 5)
    snapshot = saved(state, source, tmp_path)
    assert snapshot.step == 5
    assert snapshot.documents["data"] == {"epoch": 1, "batches_done": 2, "fingerprint": source.fingerprint()}
    assert snapshot.documents["schedule"] == {"step": 5, "factor": 1 / 6}
    assert snapshot.documents["trainer"] == {"step": 5, "tokens": 120, "run": {"seed": 1}}
    assert snapshot.identity == {"config": "c" * 64}
    assert snapshot.tensors["model"].keys() == dict(state.model.named_parameters()).keys()
    assert all(tensor.dtype == torch.float32 for tensor in snapshot.tensors["model"].values())


def test_other_data_are_refused(tmp_path):
    state = state_of()
    snapshot = saved(state, tiny.Source(batches=3), tmp_path)
    with pytest.raises(CheckpointError, match="other data or in another order"):
        restore(state, tiny.Source(batches=4), snapshot)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"intermediate_size": 50}, r"down_proj.weight is \(32, 48\) in the checkpoint of step 0 and \(32, 50\)"),
        ({"num_hidden_layers": 3}, r"layers\.2\..* is absent in the checkpoint of step 0 and \("),
        ({"num_hidden_layers": 1}, r"layers\.1\..* is \(.*\) in the checkpoint of step 0 and absent"),
    ],
)
def test_another_model_is_refused_and_left_as_it_was(changes, sentence, tmp_path):
    source = tiny.Source()
    snapshot = saved(state_of(), source, tmp_path)
    other = state_of(**changes)
    before = [p.clone() for p in other.model.parameters()]
    with pytest.raises(CheckpointError, match=sentence):
        restore(other, source, snapshot)
    assert all(torch.equal(p, q) for p, q in zip(before, other.model.parameters(), strict=True))


def test_another_optimizer_is_refused(tmp_path):
    source = tiny.Source()
    snapshot = saved(state_of("adamw"), source, tmp_path)
    with pytest.raises(CheckpointError, match=r"step 0 does not fit: .* adamw and this run uses adamw \+ muon"):
        restore(state_of("muon"), source, snapshot)


def test_a_hash_follows_the_content_and_not_the_order_of_its_names():
    assert sha256_of({"a": 1, "b": "é"}) == sha256_of({"b": "é", "a": 1})
    assert sha256_of({"a": 1}) != sha256_of({"a": 2})
    # The same on every machine, so that a checkpoint can move.
    assert sha256_of({"a": 1}) == hashlib.sha256(b'{"a": 1}').hexdigest()
