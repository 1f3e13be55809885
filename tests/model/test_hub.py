"""A folder of weights comes back bit for bit, or is refused with a reason."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from minimind.model.hub import find_weights, load_weights, save_weights
from minimind.tokenizer import load_tokenizer
from tests import tiny


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("world-800")


@pytest.fixture
def model(tokenizer):
    return tiny.lively(tiny.model(vocab_size=len(tokenizer)))


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    return save_weights(model, tokenizer, tmp_path / "out" / "tiny")


def test_weights_come_back_bit_for_bit(model, folder, tokenizer):
    loaded = load_weights(folder, expected=model.config, tokenizer=tokenizer)
    ours, theirs = dict(model.named_parameters()), dict(loaded.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_weights_are_loaded_in_fp32_whatever_they_were_saved_in(model, tokenizer, tmp_path):
    save_weights(model.to(torch.bfloat16), tokenizer, tmp_path / "half")
    loaded = load_weights(tmp_path / "half")
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert all(torch.equal(p, q.float()) for p, q in zip(loaded.parameters(), model.parameters(), strict=True))


def test_a_folder_holds_what_use_needs_and_nothing_that_could_run(folder):
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    # The template of a conversation is text that libraries fill in; it runs nothing.
    names.remove("chat_template.jinja")
    assert all(name.endswith((".json", ".safetensors")) for name in names)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_an_older_folder_is_replaced_as_a_whole(folder, tokenizer):
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"of an earlier save")
    other = tiny.lively(tiny.model(vocab_size=len(tokenizer)), seed=9)
    save_weights(other, tokenizer, folder)
    loaded = load_weights(folder)
    assert torch.equal(loaded.model.embed_tokens.weight, other.model.embed_tokens.weight)
    assert not (folder / "model-00002-of-00002.safetensors").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_a_folder_of_something_else_is_never_replaced(model, tokenizer, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"thesis.*--save_weight"):
        save_weights(model, tokenizer, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def edit(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_tensor_is_named(folder):
    edit(folder, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ValueError, match=r"missing weights: model\.layers\.1\.mlp\.up_proj\.weight"):
        load_weights(folder)


def test_a_surplus_tensor_is_named(folder):
    edit(folder, lambda tensors: tensors.update({"model.layers.1.bias": torch.zeros(3)}))
    with pytest.raises(ValueError, match=r"unexpected weights: model\.layers\.1\.bias"):
        load_weights(folder)


def test_a_tensor_of_another_shape_is_refused(folder):
    edit(folder, lambda tensors: tensors.update({"model.norm.weight": torch.zeros(7)}))
    with pytest.raises((ValueError, RuntimeError), match=r"model\.norm\.weight|mismatch"):
        load_weights(folder)


@pytest.mark.parametrize(("layers", "kind"), [(4, "missing"), (1, "unexpected")])
def test_weights_of_two_layers_are_not_those_of_four_or_one(layers, kind, folder):
    config = json.loads((folder / "config.json").read_text())
    config.update(num_hidden_layers=layers, layer_types=["full_attention"] * layers)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"{kind} weights: model.layers"):
        load_weights(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 64),
        ("num_hidden_layers", 3),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 16),
        ("intermediate_size", 64),
        ("vocab_size", 900),
        ("tie_word_embeddings", False),
        ("rope_theta", 1e4),
    ],
)
def test_another_model_than_expected_is_refused_and_both_sides_are_named(field, value, folder, tokenizer):
    ours = {"vocab_size": len(tokenizer), "head_dim": 8, "rope_theta": 1e6}
    expected = tiny.config(**{**ours, field: value})
    before = getattr(tiny.config(**ours), field)
    with pytest.raises(ValueError, match=f"{field}: {before} in the folder, {value} in this run"):
        load_weights(folder, expected=expected)


def test_another_tokenizer_is_refused(folder):
    with pytest.raises(ValueError, match=r"another tokenizer: \d+ of its \d+ entries"):
        load_weights(folder, tokenizer=load_tokenizer("minimind-6400"))


def test_a_folder_without_a_tokenizer_is_refused_when_one_must_agree(folder, tokenizer):
    (folder / "tokenizer.json").unlink()
    load_weights(folder)
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        load_weights(folder, tokenizer=tokenizer)


def test_what_is_not_a_folder_of_weights_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match=r"absent.*no config\.json"):
        load_weights(tmp_path / "absent")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"no \.safetensors"):
        load_weights(folder)


def test_an_architecture_that_this_is_not_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_experts": 4}))
    with pytest.raises(ValueError, match=r"config\.json.*'num_experts'"):
        load_weights(folder)


def test_weights_are_found_by_name_and_by_path(folder, tmp_path, monkeypatch):
    assert find_weights("tiny", str(folder.parent)) == folder
    assert find_weights(str(folder), "elsewhere") == folder
    shutil.copytree(folder, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    assert find_weights("tiny", str(folder.parent)).resolve() == tmp_path / "tiny"


def test_weights_that_are_not_there_are_answered_with_those_that_are(folder):
    with pytest.raises(ValueError, match="'absent'.*there is tiny"):
        find_weights("absent", str(folder.parent))
    with pytest.raises(ValueError, match="holds none yet"):
        find_weights("absent", str(folder / "nothing"))


def test_a_folder_with_anything_else_in_it_is_never_replaced(model, folder, tokenizer):
    (folder / "thesis.doc").write_text("three years of work")
    with pytest.raises(ValueError, match="thesis.doc"):
        save_weights(model, tokenizer, folder)
    assert (folder / "thesis.doc").read_text() == "three years of work"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1", "cannot be read"),
        ("model.safetensors", b"", "cannot be read"),
        ("config.json", b"[]", "model_type"),
        ("config.json", b"{", "config.json"),
        ("config.json", b'{"model_type": "llama"}', "model_type"),
        ("tokenizer.json", b"{}", "tokenizer.json"),
        ("tokenizer.json", b"{", "tokenizer.json"),
    ],
)
def test_a_damaged_folder_gets_one_sentence_that_names_the_file(folder, tokenizer, name, content, words):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=words) as raised:
        load_weights(folder, tokenizer=tokenizer)
    assert len(str(raised.value).splitlines()) == 1


def test_weights_that_are_no_numbers_are_refused(model, tokenizer, tmp_path):
    with torch.no_grad():
        model.model.norm.weight[0] = float("nan")
    with pytest.raises(ValueError, match=r"model\.norm\.weight.*not finite"):
        load_weights(save_weights(model, tokenizer, tmp_path / "nan"))
