"""Who is moved by what, and what is kept of it."""

import json

import pytest
import torch

from minimind.objectives.next_token import NextToken
from minimind.train.optim import Optimizers, adamw, load_state_tensors, muon_and_adamw, state_tensors
from minimind.train.step import TrainState, train_step
from tests import tiny

KINDS = {
    "adamw": lambda model: adamw(model, 1e-2, weight_decay=0.1),
    "muon": lambda model: muon_and_adamw(model, 1e-2, 0.05, weight_decay=0.1),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def steps(model, optimizers: Optimizers, first: int, last: int) -> None:
    state = TrainState(model, optimizers, lambda step: 1.0 / (1 + step), step=first)
    for step in range(first, last):
        train_step(state, [tiny.batch(seed=step)], NextToken())


def names_in(optimizers: Optimizers, model) -> list[tuple[str, float, str]]:
    names = {id(p): name for name, p in model.named_parameters()}
    return [
        (part, group["weight_decay"], names[id(p)])
        for part, optimizer in optimizers.parts.items()
        for group in optimizer.param_groups
        for p in group["params"]
    ]


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_is_in_exactly_one_group(make, tied):
    model = tiny.model(tie_word_embeddings=tied)
    found = [name for _, _, name in names_in(make(model), model)]
    assert sorted(found) == sorted(name for name, _ in model.named_parameters())


def test_matrices_decay_and_the_vectors_of_norms_do_not(make):
    model = tiny.model()
    for _, decay, name in names_in(make(model), model):
        assert decay == (0.1 if model.get_parameter(name).dim() == 2 else 0.0), name


def test_muon_gets_the_matrices_inside_the_blocks_and_nothing_else():
    model = tiny.model(tie_word_embeddings=False)
    found = {name for part, _, name in names_in(KINDS["muon"](model), model) if part == "muon"}
    assert found == {n for n, p in model.named_parameters() if n.startswith("model.layers.") and p.dim() == 2}
    assert len(found) == 2 * 7


def test_a_frozen_parameter_is_not_moved(make):
    model = tiny.model()
    frozen = model.model.layers[0].self_attn.q_proj.weight.requires_grad_(False)
    before = frozen.clone()
    optimizers = make(model)
    steps(model, optimizers, 0, 1)
    assert torch.equal(frozen, before)
    assert len(names_in(optimizers, model)) == len(list(model.parameters())) - 1


def test_the_rate_is_a_share_of_each_optimizer_s_own_peak():
    optimizers = KINDS["muon"](tiny.model())
    for factor in (0.5, 0.5, 1.0):  # of the peak, not of the rate before
        assert optimizers.set_rate(factor) == 1e-2 * factor
        rates = {name: {g["lr"] for g in part.param_groups} for name, part in optimizers.parts.items()}
        assert rates == {"adamw": {1e-2 * factor}, "muon": {0.05 * factor}}


def test_the_settings_reach_the_optimizers():
    model = tiny.model()
    (part,) = adamw(model, 3e-3, weight_decay=0.2, betas=(0.8, 0.9)).parts.values()
    assert {(g["lr"], g["betas"]) for g in part.param_groups} == {(3e-3, (0.8, 0.9))}
    parts = muon_and_adamw(model, 3e-3, 0.04, weight_decay=0.2, betas=(0.8, 0.9)).parts
    assert {(g["lr"], g["betas"]) for g in parts["adamw"].param_groups} == {(3e-3, (0.8, 0.9))}
    assert {(g["lr"], g["weight_decay"]) for g in parts["muon"].param_groups} == {(0.04, 0.2)}


def test_the_state_comes_back_exactly_and_the_next_update_is_the_same(make):
    model = tiny.model()
    optimizers = make(model)
    steps(model, optimizers, 0, 3)
    tensors, document = state_tensors(optimizers, model)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    document = json.loads(json.dumps(document))

    twin = tiny.model(seed=5)
    twin.load_state_dict(model.state_dict())
    fresh = make(twin)
    load_state_tensors(fresh, twin, tensors, document)
    again, document_again = state_tensors(fresh, twin)
    assert list(again) == list(tensors)
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert torch.equal(again[name], tensor), name
    assert json.loads(json.dumps(document_again)).keys() == document.keys()

    steps(model, optimizers, 3, 5)
    steps(twin, fresh, 3, 5)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_loaded_state_shares_nothing_with_what_it_was_loaded_from():
    model = tiny.model()
    optimizers = KINDS["adamw"](model)
    steps(model, optimizers, 0, 1)
    tensors, document = state_tensors(optimizers, model)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    load_state_tensors(optimizers, model, tensors, document)
    steps(model, optimizers, 1, 2)
    assert all(torch.equal(tensors[name], kept[name]) for name in kept)


def test_what_was_there_before_is_forgotten(make):
    model = tiny.model()
    optimizers = make(model)
    tensors, document = state_tensors(optimizers, model)  # before the first update
    steps(model, optimizers, 0, 1)
    load_state_tensors(optimizers, model, tensors, document)
    assert state_tensors(optimizers, model)[0] == {}


def test_every_moving_average_is_kept_under_its_parameter_s_name():
    model = tiny.model()
    for kind, inner in (("adamw", "adamw"), ("muon", "muon")):
        optimizers = KINDS[kind](model)
        steps(model, optimizers, 0, 1)
        tensors, _ = state_tensors(optimizers, model)
        fields = {"exp_avg", "exp_avg_sq", "step"}
        assert {f"adamw/model.norm.weight/{field}" for field in fields} <= tensors.keys()
        assert any(name.startswith(f"{inner}/model.layers.0.mlp.up_proj.weight/") for name in tensors)
        assert {name.split("/")[1] for name in tensors} == {name for name, _ in model.named_parameters()}


def test_the_state_of_another_optimizer_is_refused():
    model = tiny.model()
    saved = state_tensors(KINDS["muon"](model), model)
    with pytest.raises(ValueError, match=r"adamw \+ muon and this run uses adamw"):
        load_state_tensors(KINDS["adamw"](model), model, *saved)


def test_the_state_of_another_model_is_refused_by_a_parameter_s_name():
    larger, model = tiny.model(num_hidden_layers=3), tiny.model()
    saved = state_tensors(KINDS["adamw"](larger), larger)
    with pytest.raises(ValueError, match=r"'model\.layers\.2\."):
        load_state_tensors(KINDS["adamw"](model), model, *saved)
