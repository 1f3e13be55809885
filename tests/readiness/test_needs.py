"""What a run needs, counted without memory, is what a real run then holds and writes."""

import pytest
import torch

from minimind.config import preset
from minimind.data.batch import Batch
from minimind.model.transformer import MiniMindForCausalLM
from minimind.objectives.next_token import NextToken
from minimind.readiness import FIGURES, needs_of
from minimind.train.checkpoint_files import Disk
from minimind.train.optim import state_tensors
from minimind.train.pretrain import pretrain
from minimind.train.stage import make_optimizers
from tests import tiny


def size(tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def folder_bytes(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "vocab_size", "changes"),
    [("lab", 6400, {}), ("lesson", 800, {}), ("lesson", 800, {"optimizer": "adamw", "num_hidden_layers": 3})],
)
def test_bytes_of_weights_gradients_and_optimizer_are_those_after_a_real_update(name, vocab_size, changes):
    run = preset(name).replace(**changes)
    model = MiniMindForCausalLM(run.model_config(vocab_size))
    optimizers = make_optimizers(run, model)
    ids = torch.randint(vocab_size, (1, 8))
    NextToken().loss(model, Batch(ids, ids.clone(), None, None, None, (0,))).backward()
    optimizers.step()
    needs = needs_of(run)
    assert needs.parameters == sum(p.numel() for p in model.parameters())
    assert needs.weight_bytes == size(model.parameters())
    assert needs.gradient_bytes == size(p.grad for p in model.parameters())
    assert needs.optimizer_bytes == size(state_tensors(optimizers, model)[0].values())


def test_the_64m_model_is_counted_without_its_memory():
    needs = needs_of(FIGURES["64M"])
    assert needs.parameters == 63_912_192
    assert needs.weight_bytes == 4 * needs.parameters
    assert 2 * needs.weight_bytes <= needs.optimizer_bytes < 2 * needs.weight_bytes + 10_000
    assert needs.steps * needs.positions == pytest.approx(1e9, rel=1e-3), "a thousand million tokens"
    assert needs_of(FIGURES["64M"].replace(hidden_size=4096, num_hidden_layers=24)).weight_bytes > 10**10


def test_bfloat16_leaves_weights_and_averages_in_float32():
    run = preset("lab")
    assert needs_of(run.replace(dtype="bfloat16")) == needs_of(run)


def test_kept_activations_are_near_what_a_cpu_keeps_and_grow_with_the_rows():
    run = preset("lab")
    model = MiniMindForCausalLM(run.model_config(6400))
    own = {p.data_ptr() for p in model.parameters()}
    kept = {}
    ids = torch.randint(6400, (run.batch_size, run.max_seq_len))

    def keep(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        NextToken().loss(model, Batch(ids, ids.clone(), None, None, None, (0, 1))).backward()
    logits = 4 * ids.numel() * 6400
    real = logits + sum(t.untyped_storage().nbytes() for t in kept.values())
    needs = needs_of(run)
    assert 0.95 < needs.activation_bytes / real < 1.4
    assert needs_of(run.replace(batch_size=8)).activation_bytes == pytest.approx(4 * needs.activation_bytes, rel=0.05)
    assert needs_of(run.replace(accumulation_steps=4)).activation_bytes == needs.activation_bytes
    assert needs.memory_bytes > needs.weight_bytes + needs.gradient_bytes + needs.optimizer_bytes + real


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({"save_interval": 1, "keep_checkpoints": 2}, 3),
        ({"save_interval": 1, "keep_checkpoints": 3}, 4),
        ({"save_interval": 3, "keep_checkpoints": 4}, 2),
        ({"save_interval": 0}, 1),
        ({"save_interval": 0, "max_steps": 0, "keep_checkpoints": 2}, 1),
        ({"save_interval": 1, "max_steps": 0, "keep_checkpoints": 2}, 3),
    ],
)
def test_a_real_run_never_holds_more_on_the_disk_than_it_needs(changes, standing, tmp_path, monkeypatch):
    run = tiny.run(tmp_path, hidden_size=64, **changes)
    most = {"checkpoints": 0, "bytes": 0}

    def watch(disk, name, path):
        root = tmp_path / "checkpoints" / "tiny"
        most["checkpoints"] = max(most["checkpoints"], len(list(root.glob("*/optim.safetensors"))))
        most["bytes"] = max(most["bytes"], folder_bytes(root) if root.exists() else 0)

    monkeypatch.setattr(Disk, "event", watch)
    pretrain(run, say=lambda line: None, show_bar=False)
    needs = needs_of(run)
    assert most["checkpoints"] == needs.checkpoints == standing
    assert most["bytes"] <= needs.checkpoint_dir_bytes
    assert folder_bytes(tmp_path / "out") <= needs.save_dir_bytes
    assert needs.checkpoint_dir_bytes < most["bytes"] + needs.checkpoints * 2**20


def test_operations_follow_the_tokens_the_parameters_and_the_square_of_the_length():
    run, needs = preset("lab"), needs_of(preset("lab"))
    assert needs.flops == 96 * (6 * 532_832 + 12 * 2 * 64 * 48)
    assert needs_of(run.replace(batch_size=4)).flops == 2 * needs.flops
    assert needs_of(run.replace(accumulation_steps=2)).flops == 2 * needs.flops


def test_an_unknown_tokenizer_or_an_impossible_model_is_one_sentence():
    with pytest.raises(ValueError, match="There is no tokenizer 'nowhere'"):
        needs_of(preset("lab").replace(tokenizer="nowhere"))
    with pytest.raises(ValueError, match="num_key_value_heads=3"):
        needs_of(preset("lab").replace(num_key_value_heads=3))
