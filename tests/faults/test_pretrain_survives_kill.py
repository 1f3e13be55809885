"""A run that is killed, in a save or anywhere else, and resumed ends with the bits of one that was not."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from minimind.cli import main
from minimind.config import RunConfig
from minimind.train.checkpoint import Disk, list_checkpoints, load
from minimind.train.pretrain import PretrainResult, pretrain
from tests import tiny

WORKER = Path(__file__).with_name("pretrain_worker.py")
KILLED = -getattr(signal, "SIGKILL", -signal.SIGTERM)
STEPS, EVENTS_OF_A_STEP = 9, 9  # an update of two micro-batches emits nine events


def run_in(folder: Path, **changes) -> RunConfig:
    return tiny.run(folder, **{"max_steps": STEPS, "save_interval": 3, **changes})


def quietly(run: RunConfig) -> PretrainResult:
    tiny.shuffle_randomness()
    return pretrain(run, say=lambda line: None, show_bar=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[PretrainResult, list[tuple[str, str]]]:
    """The uninterrupted run, and every change of the disk that its saves made."""
    changes: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "event", lambda self, name, path: changes.append((name, path.name)))
        result = quietly(run_in(tmp_path_factory.mktemp("whole")))
    return result, changes


def chosen_deaths(changes: list[tuple[str, str]]) -> dict[str, dict]:
    """Every kind of change in the second and third save, some changes by lot, and some places between saves."""
    lot = random.Random(20240)
    ends = [i for i, (name, file) in enumerate(changes) if name == "rename" and file.startswith(".tmp-")]
    second = range(ends[0] + 2, ends[1] + 2)
    places = {
        "the second save begins": second[0],
        "in its weights": next(i for i in second if changes[i] == ("write", "model.safetensors")),
        "in its optimizer state": next(i for i in second if changes[i] == ("write", "optim.safetensors")),
        "in its manifest": next(i for i in second if changes[i] == ("write", "MANIFEST.json")),
        "before it gets its name": ends[1],
        "before its name is safe": ends[1] + 1,
        "while an old one is removed": next(i for i, (name, _) in enumerate(changes) if name == "remove_tree"),
    }
    places |= {f"change {at}, drawn by lot": at for at in lot.sample(range(ends[0] + 1, len(changes)), 3)}
    deaths = {place: {"kind": "change", "at": at} for place, at in places.items()}
    # Not before step 4: before the first save there is nothing to resume.
    events = lot.sample(range(3 * EVENTS_OF_A_STEP + 1, STEPS * EVENTS_OF_A_STEP), 3)
    deaths |= {f"event {at} of training, drawn by lot": {"kind": "event", "at": at} for at in events}
    return {**deaths, "before the weights are written": {"kind": "weights"}}


@pytest.fixture(scope="module")
def deaths(whole, tmp_path_factory) -> dict[str, tuple[RunConfig, int]]:
    """What was done -> the killed run and the exit code of its process."""
    folder = tmp_path_factory.mktemp("kills")
    chosen = chosen_deaths(whole[1])
    runs = {place: run_in(folder / str(number)) for number, place in enumerate(chosen)}
    for number, (place, death) in enumerate(chosen.items()):
        path = folder / f"{number}.toml"
        path.write_text(runs[place].to_toml())
        death["run"] = str(path)
    command = [sys.executable, str(WORKER), "all", json.dumps(list(chosen.values()))]
    codes = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {place: (runs[place], code) for place, code in zip(chosen, codes, strict=True)}


def assert_same_end(resumed: PretrainResult, expected: PretrainResult) -> None:
    assert (resumed.weights / "model.safetensors").read_bytes() == (expected.weights / "model.safetensors").read_bytes()
    assert resumed.checkpoint.name == expected.checkpoint.name
    ours, theirs = load(resumed.checkpoint), load(expected.checkpoint)
    assert ours.tensors.keys() == theirs.tensors.keys() == {"model", "optim", "rng/rank-00000"}
    for stem, tensors in theirs.tensors.items():
        assert ours.tensors[stem].keys() == tensors.keys()
        assert all(torch.equal(ours.tensors[stem][name], tensors[name]) for name in tensors), stem
    assert ours.documents["rng/rank-00000"] == theirs.documents["rng/rank-00000"]
    assert ours.documents["trainer"]["tokens"] == theirs.documents["trainer"]["tokens"]


@pytest.mark.slow
def test_killed_in_a_save_or_between_saves_the_resumed_run_is_bitwise_equal(whole, deaths) -> None:
    assert {code for _, code in deaths.values()} == {KILLED}
    begun_at = set()
    for place, (run, _) in deaths.items():
        root = Path(run.checkpoint_dir) / "tiny"
        left = [step for step, _ in list_checkpoints(root)]
        assert left and left[-1] in (3, 6, 9), place
        begun_at.add(left[-1])
        assert not Path(run.save_dir).exists(), place
        assert_same_end(quietly(run.replace(from_resume=1)), whole[0])
        lines = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "loss" in line] == list(range(1, STEPS + 1)), place
        if left[-1] < STEPS:  # the next save, where there is one, tidies up
            assert not list(root.glob(".tmp-*")), place
        shutil.rmtree(root)
    assert begun_at == {3, 6, 9}


def steps_in(path: Path) -> Iterator[int]:
    """The number of updates that a running process has reported, again and again."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        yield path.read_bytes().count(b'"loss"') if path.exists() else 0
        time.sleep(0.001)
    raise AssertionError(f"{path} did not grow")


@pytest.mark.slow
def test_the_command_killed_at_a_random_step_and_resumed_is_bitwise_equal(tmp_path, capsys) -> None:
    changes = {"max_steps": 150, "save_interval": 12, "eval_interval": 0}
    expected = quietly(run_in(tmp_path / "whole", **changes))
    run = run_in(tmp_path / "killed", **changes)
    at = random.Random(7).randrange(13, 60)
    command = [sys.executable, "-m", "minimind", "pretrain", *tiny.options(run)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        metrics = Path(run.checkpoint_dir) / "tiny" / "metrics.jsonl"
        for done in steps_in(metrics):
            if done >= at or process.poll() is not None:
                break
        process.kill()
    assert process.returncode == KILLED
    assert not Path(run.save_dir).exists()

    tiny.shuffle_randomness()
    assert main([*command[3:], "--from_resume", "1"]) == 0
    assert "resuming" in capsys.readouterr().out
    root = Path(run.checkpoint_dir) / "tiny"
    assert_same_end(
        PretrainResult(Path(run.save_dir) / "tiny", root / "step-00000150", None, None, None, None), expected
    )
