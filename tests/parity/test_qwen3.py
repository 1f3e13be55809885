"""A folder of ours is a Qwen3 folder: transformers' own implementation computes the same from it."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from minimind.model.hub import load_weights
from minimind.model.transformer import MiniMindForCausalLM
from tests import tiny

SHAPES = {
    "one group": {"num_key_value_heads": 4},
    "two groups": {"num_key_value_heads": 2},
    "all in one group": {"num_key_value_heads": 1},
    "heads of their own width": {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 10},
    "untied head": {"tie_word_embeddings": False, "dropout": 0.1},
    "another theta and eps": {"rope_theta": 1e4, "rms_norm_eps": 1e-3},
    "the size of the lab": {
        "vocab_size": 6400,
        "hidden_size": 64,
        "intermediate_size": None,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
}


@pytest.fixture(params=SHAPES)
def pair(request, tmp_path) -> tuple[MiniMindForCausalLM, Qwen3ForCausalLM]:
    """Ours, and transformers' as it loads the folder that ours was saved to; both for use, in fp32."""
    ours = tiny.lively(tiny.model(**SHAPES[request.param])).eval()
    ours.save_pretrained(tmp_path)
    theirs = Qwen3ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    return ours, theirs


def left_padded() -> dict[str, torch.Tensor]:
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[1, :5], mask[2, :9] = 0, 0
    return {"input_ids": tiny.ids(3, 12) * mask, "attention_mask": mask}


def test_logits_agree(pair):
    ours, theirs = pair
    tokens = tiny.ids(2, 24)
    difference = (ours(tokens).logits - theirs(tokens).logits).abs().max().item()
    assert difference <= 1e-5


def test_logits_agree_on_a_left_padded_batch(pair):
    ours, theirs = pair
    inputs = left_padded()
    places = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    difference = ours(**inputs).logits - theirs(**inputs, position_ids=places).logits
    assert difference[inputs["attention_mask"].bool()].abs().max().item() <= 1e-5


def test_the_loss_through_labels_and_every_gradient_agree(pair):
    ours, theirs = pair
    tokens = tiny.ids(2, 16)
    labels = tokens.clone()
    labels[0, :7] = -100
    losses = [model(tokens, labels=labels).loss for model in pair]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    for loss in losses:
        loss.backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    assert gradients.keys() == dict(ours.named_parameters()).keys()
    for name, parameter in ours.named_parameters():
        difference = (parameter.grad - gradients[name]).norm() / gradients[name].norm()
        assert difference <= 1e-5, name


def test_the_loss_counts_as_transformers_counts_when_a_trainer_accumulates(pair):
    tokens = tiny.ids(2, 16)
    losses = [model(tokens, labels=tokens, num_items_in_batch=torch.tensor(50)).loss for model in pair]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)


def test_generation_agrees(pair):
    settings = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    ours, theirs = (model.generate(**left_padded(), **settings) for model in pair)
    assert torch.equal(ours, theirs)
    assert ours.shape == (3, 24)


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_saved_by_qwen3_loads_here(tied, tmp_path):
    config = Qwen3Config(
        vocab_size=tiny.VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=tied,
        max_window_layers=2,
    )
    theirs = tiny.lively(Qwen3ForCausalLM(config)).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_weights(tmp_path).eval()
    tokens = tiny.ids(2, 16)
    assert (ours(tokens).logits - theirs(tokens).logits).abs().max().item() <= 1e-5


def test_a_saved_folder_needs_nothing_of_ours(tmp_path):
    tiny.model(dropout=0.1).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "qwen3"
    assert saved["architectures"] == ["Qwen3ForCausalLM"]
    assert "minimind" not in json.dumps(saved).lower()
    model, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(model) is Qwen3ForCausalLM
    assert not any(report.values())
