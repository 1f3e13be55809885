"""Whole runs, tiny: what they leave behind, and that a continued one is the uninterrupted one."""

import json
from pathlib import Path

import pytest
import torch

from minimind.config import RunConfig
from minimind.model.hub import load_weights
from minimind.tokenizer import load_tokenizer
from minimind.train.checkpoint import list_checkpoints, load
from minimind.train.device import make_autocast, resolve_device
from minimind.train.loop import NonFiniteError
from minimind.train.pretrain import PretrainResult, pretrain
from tests import tiny


def go(run: RunConfig, **changes) -> tuple[PretrainResult, list[str]]:
    said: list[str] = []
    tiny.shuffle_randomness()  # a run depends on its seed and not on what was before
    return pretrain(run.replace(**changes), say=said.append, show_bar=False), said


def metrics(run: RunConfig) -> list[dict]:
    path = Path(run.checkpoint_dir) / run.save_weight / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "tokens_per_s"} for line in lines]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def assert_same_state(one: Path, other: Path) -> None:
    """Every tensor and every document of two checkpoints, apart from where the runs keep their files."""
    left, right = load(one), load(other)
    assert left.tensors.keys() == right.tensors.keys()
    for stem, tensors in left.tensors.items():
        assert tensors.keys() == right.tensors[stem].keys()
        assert all(torch.equal(tensors[name], right.tensors[stem][name]) for name in tensors), stem
    for snapshot in (left, right):
        snapshot.documents["trainer"].pop("run")
    assert left.documents == right.documents
    assert left.identity == right.identity


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[RunConfig, PretrainResult, list[str]]:
    """Six updates in one go."""
    run = tiny.run(tmp_path_factory.mktemp("whole"))
    return run, *go(run)


def test_a_run_leaves_weights_checkpoints_and_metrics(whole):
    run, result, said = whole
    assert result.weights == Path(run.save_dir) / "tiny"
    assert result.checkpoint == Path(run.checkpoint_dir) / "tiny" / "step-00000006"
    assert [step for step, _ in list_checkpoints(result.checkpoint.parent)] == [3, 6]
    assert any(str(result.weights) in line for line in said)
    assert any(str(result.checkpoint) in line for line in said)

    loaded = load_weights(result.weights, tokenizer=load_tokenizer("world-800"))
    saved = load(result.checkpoint).tensors["model"]
    assert all(torch.equal(p, saved[name]) for name, p in loaded.named_parameters())


def test_every_update_has_a_line_of_metrics_and_every_validation_one(whole):
    run, result, _ = whole
    lines = metrics(run)
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if "validation_loss" in line] == [3, 6]
    assert [line["step"] for line in lines] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert result.validation_loss == lines[-1]["validation_loss"]
    assert result.last.loss == lines[-2]["loss"]
    assert all(line["tokens"] > 0 and line["learning_rate"] > 0 for line in lines if "loss" in line)


def test_every_line_is_said_and_nothing_is_printed(whole, tmp_path, capfd):
    _, _, said = whole
    assert [line.split()[:2] for line in said if "validation loss" in line] == [["step", "3"], ["step", "6"]]
    go(tiny.run(tmp_path, max_steps=2))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_training_lowers_the_loss(tmp_path):
    run = tiny.run(tmp_path, max_steps=25, dropout=0.0, eval_interval=0)
    result, _ = go(run)
    assert result.last.loss < metrics(run)[0]["loss"] - 0.5


def test_the_same_run_gives_the_same_bits_and_another_seed_others(whole, tmp_path):
    run, result, _ = whole
    again, _ = go(tiny.run(tmp_path))
    assert weights(again.weights) == weights(result.weights)
    assert_same_state(again.checkpoint, result.checkpoint)
    other, _ = go(tiny.run(tmp_path, save_weight="other", seed=43))
    assert weights(other.weights) != weights(result.weights)


@pytest.mark.parametrize("changes", [{}, {"packing": 1}, {"optimizer": "muon"}], ids=["plain", "packed", "muon"])
def test_three_updates_and_three_resumed_are_six_bit_for_bit(changes, whole, tmp_path):
    if changes:
        expected_run = tiny.run(tmp_path, save_weight="expected", **changes)
        expected, _ = go(expected_run)
    else:
        expected_run, expected, _ = whole
    run = tiny.run(tmp_path, **changes)

    def stop(name: str, /, **payload) -> None:
        if name == "optim.done" and payload["learning_rate"] == rates[4]:
            raise KeyboardInterrupt

    rates = [line["learning_rate"] for line in metrics(expected_run) if "loss" in line]
    with pytest.raises(KeyboardInterrupt):
        pretrain(run, say=lambda line: None, show_bar=False, emit=stop)
    assert metrics(run)[-1]["step"] == 4
    assert not (Path(run.save_dir) / "tiny").exists()
    resumed, said = go(run, from_resume=1)
    assert any(line.startswith("resuming") and "step-00000003" in line for line in said)
    assert weights(resumed.weights) == weights(expected.weights)
    assert_same_state(resumed.checkpoint, expected.checkpoint)
    assert metrics(run) == metrics(expected_run)


def test_a_run_that_has_arrived_resumes_to_the_same_weights(whole):
    run, result, _ = whole
    before = weights(result.weights)
    resumed, _ = go(run, from_resume=1)
    assert weights(resumed.weights) == before
    assert resumed.last is None
    assert resumed.checkpoint == result.checkpoint


def test_a_second_run_of_the_same_name_sets_the_first_one_s_checkpoints_aside(tmp_path):
    run = tiny.run(tmp_path)
    first, _ = go(run)
    kept = load(first.checkpoint).tensors["model"]
    _, said = go(run, seed=43)
    aside = Path(run.checkpoint_dir) / "tiny.before-1"
    assert any(str(aside) in line for line in said)
    old = load(aside / "step-00000006").tensors["model"]
    assert all(torch.equal(old[name], kept[name]) for name in kept)
    assert [line["step"] for line in metrics(run)] == [1, 2, 3, 3, 4, 5, 6, 6]


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> RunConfig:
    run = tiny.run(tmp_path_factory.mktemp("half"), max_steps=3)
    go(run)
    return run


def test_another_batch_size_is_refused_by_name_and_nothing_is_touched(half):
    before = metrics(half)
    with pytest.raises(ValueError, match="batch_size was 3 and is 2"):
        go(half, from_resume=1, batch_size=2)
    assert metrics(half) == before


def test_another_learning_rate_is_listed_and_applied(tmp_path):
    run = tiny.run(tmp_path, max_steps=3)
    go(run)
    _, said = go(run, from_resume=1, max_steps=5, learning_rate=2e-3)
    assert "applied    learning_rate: 0.01 -> 0.002" in said
    assert "applied    max_steps: 3 -> 5" in said
    assert max(line["learning_rate"] for line in metrics(run)[-2:] if "loss" in line) <= 2e-3


def test_asked_to_resume_with_nothing_there_it_does_not_start_from_scratch(tmp_path):
    run = tiny.run(tmp_path, from_resume=1)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        go(run)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "checkpoints").exists()


def test_weights_of_an_earlier_stage_are_what_a_run_starts_from(half, tmp_path):
    run = tiny.run(tmp_path, from_weight=str(Path(half.save_dir) / "tiny"), max_steps=2, learning_rate=0.0)
    result, _ = go(run)
    assert weights(result.weights) == weights(Path(half.save_dir) / "tiny")


def test_weights_of_other_sizes_or_another_tokenizer_are_refused(half, tmp_path):
    folder = str(Path(half.save_dir) / "tiny")
    with pytest.raises(ValueError, match="hidden_size: 16 in the folder, 32 in this run"):
        go(tiny.run(tmp_path, from_weight=folder, hidden_size=32))
    with pytest.raises(ValueError, match="vocab_size: 800 in the folder, 6400 in this run"):
        go(tiny.run(tmp_path, from_weight=folder, tokenizer="minimind-6400"))
    with pytest.raises(ValueError, match="'absent'.*none"):
        go(tiny.run(tmp_path, from_weight="absent"))


def write_rows(path: Path, count: int) -> None:
    rows = [json.dumps({"text": f"The sky is blue and number {index} is a number."}) for index in range(count)]
    path.write_text("\n".join(rows) + "\n")


def test_a_broken_row_of_a_user_s_file_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "mine.jsonl"
    write_rows(path, 20)
    lines = path.read_text().splitlines()
    lines[6] = '{"text": "half a'
    path.write_text("\n".join(lines) + "\n")
    run = tiny.run(tmp_path, data_path=str(path), max_steps=2)
    with pytest.raises(ValueError, match=r"mine\.jsonl.*\b7\b"):
        go(run)
    _, said = go(run, lenient=1)
    assert any("19 documents of mine.jsonl" in line for line in said)


def test_data_that_are_not_there_or_too_few_are_refused(tmp_path):
    with pytest.raises(ValueError, match="data_path='absent.jsonl'.*tang5"):
        go(tiny.run(tmp_path, data_path="absent.jsonl"))
    write_rows(tmp_path / "mine.jsonl", 8)
    with pytest.raises(ValueError, match="validation_documents=8 would hold out all 8"):
        go(tiny.run(tmp_path, data_path=str(tmp_path / "mine.jsonl")))


def test_without_held_out_documents_nothing_is_validated(tmp_path):
    run = tiny.run(tmp_path, validation_documents=0, max_steps=2)
    result, _ = go(run)
    assert result.validation_loss is None
    assert [line["step"] for line in metrics(run)] == [1, 2]


def test_without_a_number_of_steps_the_epochs_decide(tmp_path):
    run = tiny.run(tmp_path, max_steps=0, epochs=2, world_documents=26, warmup_steps=50)
    _, said = go(run)
    assert metrics(run)[-1]["step"] == 2 * 3  # 18 documents, 6 an update
    assert "warm-up    5 updates, not 50: the run has only 6" in said


def test_samples_change_no_bit_of_the_training(whole, tmp_path):
    _, result, _ = whole
    sampled, said = go(tiny.run(tmp_path, samples=2))
    assert weights(sampled.weights) == weights(result.weights)
    assert sampled.before.texts == sampled.after.texts == 64
    assert sum(line.startswith("  | ") for line in said) == 4


@pytest.mark.parametrize(("at", "words"), [(2, "nothing was saved yet"), (5, "--from_resume 1 goes on from")])
def test_an_interrupted_run_says_whether_there_is_something_to_resume(tmp_path, at, words):
    said: list[str] = []

    def interrupt(name: str, /, **payload) -> None:
        if name == "step.start" and payload["step"] == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(tiny.run(tmp_path), say=said.append, show_bar=False, emit=interrupt)
    assert words in said[-1] and "interrupted at step" in said[-1]


def test_a_new_run_says_beforehand_that_it_replaces_weights(tmp_path):
    run = tiny.run(tmp_path, max_steps=1)
    assert not any(line.startswith("replaces") for line in go(run)[1])
    assert any(line.startswith(f"replaces   {Path(run.save_dir) / 'tiny'}") for line in go(run)[1])


def test_a_run_that_diverges_stops_and_leaves_the_last_good_checkpoint(tmp_path):
    run = tiny.run(tmp_path)

    def spoil(name: str, /, **payload) -> None:
        if name == "step.start" and payload["step"] == 5:
            with torch.no_grad():
                payload["model"].model.norm.weight.fill_(float("nan"))

    with pytest.raises(NonFiniteError, match=r"step 5: .*step-00000003"):
        pretrain(run, say=lambda line: None, show_bar=False, emit=spoil)
    assert [step for step, _ in list_checkpoints(Path(run.checkpoint_dir) / "tiny")] == [3]
    assert [line["step"] for line in metrics(run)] == [1, 2, 3, 3, 4]
    assert not (tmp_path / "out").exists()


def test_bfloat16_runs_and_keeps_its_weights_in_fp32(tmp_path):
    result, _ = go(tiny.run(tmp_path, dtype="bfloat16", max_steps=2))
    assert {t.dtype for t in load(result.checkpoint).tensors["model"].values()} == {torch.float32}


def test_devices_are_found_or_refused_by_name():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    for name in ("tpu?", "xpu"):
        with pytest.raises(ValueError, match="this machine.*cpu"):
            resolve_device(name)
    with make_autocast("bfloat16", torch.device("cpu"))():
        assert torch.is_autocast_enabled("cpu")


def test_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun"):
        go(tiny.run(tmp_path))


def test_a_place_that_cannot_take_the_result_is_refused_before_training(tmp_path):
    run = tiny.run(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    for field in ("save_dir", "checkpoint_dir"):
        with pytest.raises(ValueError, match=f"{field}.*is a file"):
            go(run, **{field: str(tmp_path / "file" / "deeper")})
    foreign = tmp_path / "foreign" / run.save_weight
    foreign.mkdir(parents=True)
    (foreign / "thesis.doc").write_text("three years of work")
    with pytest.raises(ValueError, match="thesis.doc"):
        go(run, save_dir=str(foreign.parent))
    assert not Path(run.checkpoint_dir).exists()


def test_resuming_a_finished_run_says_that_nothing_is_left(whole, tmp_path):
    run, result, _ = whole
    _, said = go(run, from_resume=1, save_dir=str(tmp_path / "out"))
    assert any("nothing is left to train" in line for line in said)
    with pytest.raises(ValueError, match="max_steps=4"):
        go(run, from_resume=6, max_steps=4)
    assert result.checkpoint.exists()
