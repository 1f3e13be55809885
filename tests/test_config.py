"""What the two configurations accept, refuse, and write down."""

import dataclasses
import json

import pytest
import torch

from minimind.config import PRESETS, MiniMindConfig, RunConfig, preset
from minimind.model.transformer import MiniMindForCausalLM
from minimind.tokenizer import SHIPPED_VOCAB_SIZES

FIELDS = {field.name: type(field.default) for field in dataclasses.fields(RunConfig)}


# --- the model --------------------------------------------------------------------------------------


def test_a_field_that_the_model_does_not_have_is_refused_by_name():
    with pytest.raises(ValueError, match="no field 'hiden_size' .*hidden_size"):
        MiniMindConfig(hiden_size=64)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"num_attention_heads": 6, "num_key_value_heads": 4}, "num_attention_heads=6.*num_key_value_heads=4"),
        ({"hidden_size": 66, "num_attention_heads": 4, "num_key_value_heads": 4}, "hidden_size=66.*\n?.*4 equal heads"),
        ({"head_dim": 7}, "head_dim=7 is odd"),
        ({"hidden_size": 12, "num_attention_heads": 4}, "head_dim=3 is odd"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"dropout": -0.1}, "dropout=-0.1"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}}, "rope_type='yarn'"),
        ({"layer_types": ["sliding_attention"] * 8}, "layer_types"),
        ({"layer_types": ["full_attention"] * 3}, "8 layers"),
        ({"attention_bias": True}, "'attention_bias' is True"),
        ({"use_sliding_window": True}, "'use_sliding_window' is True"),
        ({"attention_dropout": 0.1}, "'attention_dropout' is 0.1"),
    ],
)
def test_a_value_that_cannot_make_a_model_is_refused_by_name(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        MiniMindConfig(**fields)


@pytest.mark.parametrize("value", [0, -4, 2.5, True, "64"])
@pytest.mark.parametrize(
    "name",
    [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "head_dim",
        "max_position_embeddings",
    ],
)
def test_a_size_is_a_whole_number_of_at_least_one(name, value):
    with pytest.raises(ValueError, match=name):
        MiniMindConfig(**{name: value})


def test_a_head_width_of_its_own_need_not_divide_the_hidden_width():
    config = MiniMindConfig(hidden_size=66, num_attention_heads=4, num_key_value_heads=2, head_dim=10)
    assert config.head_dim == 10


@pytest.mark.parametrize(("hidden", "inner"), [(64, 256), (512, 1664), (768, 2432)])
def test_the_inner_width_is_pi_times_the_hidden_width_in_steps_of_64(hidden, inner):
    assert MiniMindConfig(hidden_size=hidden).intermediate_size == inner


def test_rope_theta_may_be_given_by_its_own_name():
    assert MiniMindConfig(rope_theta=1e4).rope_theta == 1e4
    assert MiniMindConfig().rope_theta == 1e6


def test_the_saved_form_names_qwen3_and_comes_back_equal(tmp_path):
    config = MiniMindConfig(hidden_size=64, num_hidden_layers=3, head_dim=10, dropout=0.2, tie_word_embeddings=False)
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "qwen3"
    assert saved["architectures"] == ["Qwen3ForCausalLM"]
    assert MiniMindConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


# --- the run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_of_another_type_is_refused_by_name(name):
    wrong = 3 if FIELDS[name] is str else "3"
    for value in (wrong, None, True):
        with pytest.raises(ValueError, match=f"^{name}="):
            RunConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 0) for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")),
        *((name, 0) for name in ("epochs", "batch_size", "accumulation_steps", "log_interval")),
        *((name, -1) for name in ("head_dim", "intermediate_size", "validation_documents", "max_steps", "seed")),
        *((name, -1) for name in ("warmup_steps", "threads", "from_resume", "save_interval", "eval_interval")),
        ("samples", -1),
        *((name, 1) for name in ("max_seq_len", "keep_checkpoints", "world_documents")),
        *((name, -0.5) for name in ("grad_clip", "learning_rate", "muon_learning_rate", "weight_decay", "dropout")),
        *((name, float("nan")) for name in FIELDS if FIELDS[name] is float),
        *((name, float("inf")) for name in FIELDS if FIELDS[name] is float),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("dropout", 1.0),
        ("optimizer", "sgd"),
        ("dtype", "float16"),
        ("lenient", 2),
        ("packing", -1),
        ("save_weight", "a/b"),
        ("save_weight", ""),
        ("save_weight", ".."),
        ("save_weight", "none"),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}="):
        RunConfig(**{name: value})


def test_a_whole_number_may_stand_for_a_float():
    run = RunConfig(grad_clip=1)
    assert isinstance(run.grad_clip, float)


def test_a_run_cannot_change_its_own_orders():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().seed = 1


def test_replace_refuses_an_unknown_field_by_name():
    assert RunConfig().replace(seed=7).seed == 7
    with pytest.raises(ValueError, match="'learning_rat'"):
        RunConfig().replace(learning_rat=1.0)


@pytest.mark.parametrize("name", PRESETS)
def test_toml_gives_the_same_run_back(name, tmp_path):
    run = PRESETS[name].replace(dropout=0.1, save_weight='a "quoted" name', learning_rate=1.25e-5)
    path = tmp_path / "run.toml"
    path.write_text(run.to_toml(), encoding="utf-8")
    assert RunConfig().merged_with_toml(path) == run


def test_toml_changes_only_what_it_names(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("seed = 5\n")
    assert PRESETS["lab"].merged_with_toml(path) == PRESETS["lab"].replace(seed=5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(b"sed = 5", "'sed'"), (b"seed = ", "run.toml"), (b'seed = "5"', "seed='5'"), (b"# \xff", "utf-8")],
)
def test_a_toml_file_that_cannot_be_used_is_named(text, sentence, tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"run.toml.*{sentence}|{sentence}.*"):
        RunConfig().merged_with_toml(path)
    with pytest.raises(ValueError, match="run.toml"):
        RunConfig().merged_with_toml(path)


def test_a_toml_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="absent.toml"):
        RunConfig().merged_with_toml(tmp_path / "absent.toml")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_makes_a_model_for_its_tokenizer(name):
    run = preset(name)
    with torch.device("meta"):
        model = MiniMindForCausalLM(run.model_config(SHIPPED_VOCAB_SIZES[run.tokenizer]))
    assert model.config.hidden_size == run.hidden_size
    assert len(model.model.layers) == run.num_hidden_layers
    assert model.lm_head.out_features == SHIPPED_VOCAB_SIZES[run.tokenizer]


def test_every_size_of_a_run_reaches_the_model():
    sizes = {
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 10,
        "intermediate_size": 50,
        "dropout": 0.25,
    }
    config = RunConfig(**sizes).model_config(99)
    assert {name: getattr(config, name) for name in sizes} == sizes
    assert config.vocab_size == 99
    assert RunConfig(hidden_size=24, head_dim=0, intermediate_size=0).model_config(99).head_dim == 6


def test_an_unknown_preset_is_answered_with_those_that_exist():
    with pytest.raises(ValueError, match="'leson'.*lab, lesson"):
        preset("leson")


@pytest.mark.parametrize(
    "change", [{"max_seq_len": 40_000}, {"threads": 999_999_999}, {"hidden_size": 10**11}, {"save_weight": "x" * 300}]
)
def test_a_slip_of_the_keyboard_is_a_sentence_and_not_a_full_memory(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        RunConfig().replace(**change)
