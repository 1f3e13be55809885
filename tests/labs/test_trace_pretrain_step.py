"""The lab that traces one pretraining step: its numbers, its shapes, its command line."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from labs import trace_pretrain_step as lab
from labs.lab import check
from minimind.trace import Record

STEP_LINES = [
    r"input_ids\.shape = \(2, 48\)",
    r"logits\.shape = \(2, 48, 6400\)",
    r"loss = \d+\.\d+",
    r"grad_norm_before_clip = \d+(\.\d+)?",
    r"max_first_param_delta_after_step = \d+(\.\d+)?(e-\d+)?",
]


@pytest.fixture(scope="module")
def record() -> Record:
    """The lab with its default arguments."""
    return lab.run()


def same_every_time(record: Record) -> dict:
    """All of a record but its measured times."""
    data = record.to_dict()
    for step in data["steps"]:
        del step["time_s"]
    return data


def count(hidden_size: int, layers: int, vocab_size: int = 6400, heads: int = 8, kv_heads: int = 4) -> int:
    """Parameters of MiniMind with a tied head, counted by hand."""
    head_dim = hidden_size // heads
    feed_forward = math.ceil(hidden_size * math.pi / 64) * 64
    attention = hidden_size * head_dim * (heads + 2 * kv_heads) + heads * head_dim * hidden_size + 2 * head_dim
    block = attention + 3 * hidden_size * feed_forward + 2 * hidden_size
    return vocab_size * hidden_size + layers * block + hidden_size


def test_the_default_run_equals_its_reference(record):
    assert check(record) == []


def test_two_runs_are_equal_bit_for_bit(record):
    assert same_every_time(lab.run()) == same_every_time(record)


def test_the_numbers_are_those_of_a_training_step(record):
    first = record.steps[0]
    assert record.values["parameters"] == count(64, 2) == 532_832
    assert 8.6 < first.loss < 9.0, "near ln 6400 = 8.76 at the start"
    assert sum(first.micro_losses) == pytest.approx(first.loss)
    assert first.grad_norm_after_clip == pytest.approx(min(1.0, first.grad_norm_before_clip), rel=1e-5)
    assert first.parameters[lab.FIRST_PARAMETER].delta_max == record.values["max_first_param_delta_after_step"]
    assert 0 < record.values["max_first_param_delta_after_step"] <= 1.01 * first.learning_rate
    assert len({i for step in record.steps for i in step.sample_ids}) == 2 * len(record.steps)


def test_check_fails_on_another_learning_rate_and_names_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace_pretrain_step.py", "--learning_rate", "1e-3", "--check"])
    assert lab.main() == 1
    shown = capsys.readouterr()
    for line in STEP_LINES:
        assert re.search(f"^{line}$", shown.out, re.MULTILINE), line
    assert "fields differ from trace_pretrain_step.json" in shown.err
    assert re.search(r"^  arguments\.learning_rate: 0\.001 here, 0\.0005 in the reference", shown.err, re.MULTILINE)


def test_it_runs_as_a_script_from_any_folder_and_writes_what_it_is_asked_for(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = [sys.executable, str(Path(lab.__file__).resolve()), "--hidden_size", "96", "--num_hidden_layers", "3"]
    result = subprocess.run(
        [*script, "--steps", "2", "--json", "out/record.json", "--plot", "out/step.png"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert not result.stderr, "no warning either"
    for line in STEP_LINES:
        assert re.search(f"^{line}$", result.stdout, re.MULTILINE), line
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["record.json", "step.png"]
    assert imread(tmp_path / "out" / "step.png").std() > 0.05, "there is something in the picture"
    record = Record.load(tmp_path / "out" / "record.json")
    assert record.lab == "trace_pretrain_step"
    assert record.values["parameters"] == count(96, 3)
    assert f"parameters = {count(96, 3):,}" in result.stdout
    assert record.shapes == {
        "input_ids": [2, 48],
        "labels": [2, 48],
        "model.embed_tokens": [2, 48, 96],
        **{f"model.layers.{i}": [2, 48, 96] for i in range(3)},
        "model.norm": [2, 48, 96],
        "logits": [2, 48, 6400],
    }
    assert record.steps[0].parameters["model.layers.2.self_attn.k_proj.weight"].shape == [48, 96]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--steps", "0"], "steps=0 makes no update, so there is nothing to trace; give at least 1."),
        (["--hidden_size", "63"], "hidden_size=63 does not divide into num_attention_heads=8 equal heads"),
        (["--batch_size", "0"], "batch_size=0 must be at least 1."),
        (["--data_path", "nowhere.jsonl"], "data_path='nowhere.jsonl' is neither a file nor one of"),
        (["--steps", "20000"], "data_path='tang5' has 16809 documents, and 20000 steps of 2 rows need 40000"),
        (["--device", "abacus"], "device='abacus'"),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(argv, sentence, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trace_pretrain_step.py", *argv])
    assert lab.main() == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"trace_pretrain_step: {sentence}")
    assert shown.err.count("\n") == 1 and not shown.out


def test_a_step_of_ones_own_is_the_one_that_runs(record):
    calls = []

    def step(state, microbatches, objective, *, emit):
        calls.append(len(microbatches))
        return lab.train_step(state, microbatches, objective, emit=emit)

    ours = lab.run(steps=2, accumulation_steps=2, step=step)
    assert calls == [2, 2]
    assert [len(step.micro_losses) for step in ours.steps] == [2, 2]
