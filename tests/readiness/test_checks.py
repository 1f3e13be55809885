"""The report: the same checks on every machine, true findings, and commands that mend what they stand under."""

import dataclasses
import random
import shlex
from pathlib import Path

import pytest
import torch

from minimind.config import PRESETS, STAGES, RunConfig, preset
from minimind.model.hub import load_weights, save_weights
from minimind.readiness import (
    Accelerator,
    Disk,
    Finding,
    Machine,
    as_command,
    as_text,
    checks,
    is_ready,
    needs_of,
    report,
)
from minimind.tokenizer import load_tokenizer
from minimind.train.pretrain import pretrain
from tests import tiny

OLD_GPU = Accelerator("cuda:0", "an older GPU", 8 * 2**30, bfloat16=False)
NEW_GPU = Accelerator("cuda:0", "a newer GPU", 80 * 2**30, bfloat16=True)
ROOMY = Machine(
    system="Linux",
    processor="x86_64",
    cores=4,
    memory_bytes=64 * 2**30,
    bfloat16=False,
    accelerators=(),
    nvidia_driver=False,
    save_disk=Disk(10**12),
    checkpoint_disk=Disk(10**12),
)


def finding(name: str, run: RunConfig, machine: Machine = ROOMY, stage: str = "pretrain") -> Finding:
    (found,) = [each for each in report(run, machine, stage) if each.name == name]
    return found


def run_of(command: str) -> RunConfig:
    """The run that a command of the report means."""
    program, stage, *words = shlex.split(command)
    assert program == "minimind"
    options = dict(zip(words[::2], words[1::2], strict=True))
    base = preset(options.pop("--preset", "lesson"), stage)
    kinds = {field.name: type(field.default) for field in dataclasses.fields(RunConfig)}
    given = {name.removeprefix("--"): value for name, value in options.items()}
    return base.replace(**{name: kinds[name](value) for name, value in given.items()})


# --- the report as a whole ------------------------------------------------------------------------


def test_this_machine_is_ready_for_the_lesson_and_the_lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in (None, preset("lab")):
        findings = report(run)
        assert is_ready(findings), as_text(findings)
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_the_checks_have_the_same_names_for_every_run_and_machine(tmp_path):
    names = [each.name for each in report(preset("lesson"), ROOMY)]
    assert len(set(names)) == len(names)
    poor = dataclasses.replace(
        ROOMY, memory_bytes=None, accelerators=(OLD_GPU,), save_disk=Disk(0, 1), checkpoint_disk=Disk(0, 2)
    )
    broken = tiny.run(
        tmp_path, tokenizer="nowhere", data_path="nowhere.txt", from_weight="nowhere", from_resume=1, device="mps"
    )
    findings = report(broken, poor)
    assert [each.name for each in findings] == names
    missing = {each.name for each in findings if each.status == "missing"}
    assert missing >= {"device", "disk save_dir", "disk checkpoint_dir", "data", "tokenizer", "weights", "checkpoint"}
    assert not is_ready(findings)
    assert all(each.fix for each in findings if each.status != "ok")


def test_asking_changes_no_random_number_and_no_thread(tmp_path):
    run = tiny.run(tmp_path)
    pretrain(run, say=lambda line: None, show_bar=False)
    torch.manual_seed(5)
    random.seed(5)
    state, words, threads = torch.get_rng_state(), random.getstate(), torch.get_num_threads()
    report(run.replace(from_weight="tiny", from_resume=1), ROOMY)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == words
    assert torch.get_num_threads() == threads


def test_a_broken_corpus_stops_the_run_that_reads_it_and_no_other(monkeypatch):
    def broken(name: str) -> Finding:
        return Finding(f"corpus {name}", "half of it", "all of it", "missing", "git restore it")

    monkeypatch.setattr(checks, "check_corpus", broken)
    assert finding("corpus tang5", preset("lab")).status == "missing"
    assert finding("corpus plays", preset("lab")).status == "degraded"
    assert finding("corpus tang5", preset("lesson")).status == "degraded"


# --- one check after another ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "accelerators", "status"),
    [
        ("cpu", (), "ok"),
        ("auto", (), "ok"),
        ("cuda", (), "missing"),
        ("cuda", (OLD_GPU,), "ok"),
        ("cuda:0", (OLD_GPU,), "ok"),
        ("cuda:1", (OLD_GPU,), "missing"),
        ("mps", (OLD_GPU,), "missing"),
        ("abacus", (), "missing"),
    ],
)
def test_the_device_must_be_here(device, accelerators, status):
    machine = dataclasses.replace(ROOMY, accelerators=accelerators)
    found = finding("device", preset("lab").replace(device=device), machine)
    assert found.status == status
    if status == "missing":
        assert found.fix == "minimind pretrain --preset lab --device auto"


@pytest.mark.parametrize(
    ("dtype", "device", "machine", "status"),
    [
        ("float32", "cpu", ROOMY, "ok"),
        ("bfloat16", "cpu", ROOMY, "degraded"),
        ("bfloat16", "cpu", dataclasses.replace(ROOMY, bfloat16=True), "ok"),
        ("bfloat16", "cuda", dataclasses.replace(ROOMY, accelerators=(OLD_GPU,)), "missing"),
        ("bfloat16", "auto", dataclasses.replace(ROOMY, accelerators=(OLD_GPU,), bfloat16=True), "missing"),
        ("bfloat16", "cuda", dataclasses.replace(ROOMY, accelerators=(NEW_GPU,)), "ok"),
        ("bfloat16", "cpu", dataclasses.replace(ROOMY, accelerators=(NEW_GPU,)), "degraded"),
    ],
)
def test_emulated_bfloat16_is_degraded_on_a_cpu_and_missing_on_a_gpu(dtype, device, machine, status):
    run = preset("lab").replace(dtype=dtype, device=device)
    found = finding("precision", run, machine)
    assert found.status == status
    if status != "ok":
        assert run_of(found.fix) == run.replace(dtype="float32")


@pytest.mark.parametrize(
    ("changes", "cores", "status"),
    [
        ({"threads": 0}, 4, "ok"),
        ({"threads": 1}, 1, "ok"),
        ({"threads": 2}, 4, "degraded"),  # the lesson's model is small
        ({"threads": 4, "hidden_size": 256, "num_hidden_layers": 4}, 4, "ok"),
        ({"threads": 5, "hidden_size": 256, "num_hidden_layers": 4}, 4, "degraded"),
    ],
)
def test_threads_that_do_not_help_are_named(changes, cores, status):
    run = preset("lesson").replace(**changes)
    found = finding("threads", run, dataclasses.replace(ROOMY, cores=cores))
    assert found.status == status
    if status != "ok":
        assert run_of(found.fix) == run.replace(threads=0)


def test_memory_that_is_short_by_a_byte_is_missing():
    run = preset("lab")
    needs = needs_of(run)
    for has, status in ((needs.memory_bytes, "ok"), (needs.memory_bytes - 1, "missing"), (None, "ok")):
        assert finding("memory", run, dataclasses.replace(ROOMY, memory_bytes=has)).status == status
    small_gpu = dataclasses.replace(OLD_GPU, memory_bytes=needs.memory_bytes - 1)
    on_gpu = finding("memory", run.replace(device="cuda"), dataclasses.replace(ROOMY, accelerators=(small_gpu,)))
    assert on_gpu.status == "missing" and "on cuda:0" in on_gpu.found


def test_a_run_that_does_not_fit_is_offered_the_same_update_in_smaller_pieces():
    run = preset("lab").replace(batch_size=64, accumulation_steps=2)
    machine = dataclasses.replace(ROOMY, memory_bytes=needs_of(run.replace(batch_size=16)).memory_bytes + 2**20)
    offered = run_of(finding("memory", run, machine).fix)
    assert (offered.batch_size, offered.accumulation_steps) == (16, 8)
    assert finding("memory", offered, machine).status == "ok"
    large = run.replace(hidden_size=8192, num_hidden_layers=2)
    assert run_of(finding("memory", large, machine).fix) == preset("lesson"), "no pieces are small enough"


def test_folders_on_one_disk_share_its_room_and_those_on_two_do_not():
    run = preset("lab").replace(save_interval=1)
    needs = needs_of(run)
    one = Disk(needs.checkpoint_dir_bytes + needs.save_dir_bytes - 1, identity=1)
    shared = dataclasses.replace(ROOMY, save_disk=one, checkpoint_disk=one)
    assert {finding(f"disk {name}", run, shared).status for name in ("save_dir", "checkpoint_dir")} == {"missing"}
    apart = dataclasses.replace(shared, save_disk=dataclasses.replace(one, identity=2))
    assert {finding(f"disk {name}", run, apart).status for name in ("save_dir", "checkpoint_dir")} == {"ok"}
    just = dataclasses.replace(one, free_bytes=one.free_bytes + 1)
    enough = dataclasses.replace(ROOMY, save_disk=just, checkpoint_disk=just)
    assert finding("disk save_dir", run, enough).status == "ok"


def test_a_disk_that_is_too_small_is_offered_a_single_save_where_that_helps():
    run = preset("lab").replace(save_interval=1)
    single = needs_of(run.replace(save_interval=0))
    just = Disk(single.checkpoint_dir_bytes + single.save_dir_bytes)
    machine = dataclasses.replace(ROOMY, save_disk=just, checkpoint_disk=just)
    offered = run_of(finding("disk checkpoint_dir", run, machine).fix)
    assert offered == run.replace(save_interval=0)
    assert finding("disk checkpoint_dir", offered, machine).status == "ok"
    less = Disk(just.free_bytes - 1)
    machine = dataclasses.replace(ROOMY, save_disk=less, checkpoint_disk=less)
    assert finding("disk checkpoint_dir", run, machine).fix == "df -h"


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("x")
    for field in ("save_dir", "checkpoint_dir"):
        run = tiny.run(tmp_path).replace(**{field: str(tmp_path / "file")})
        found = finding(f"folder {field}", run)
        assert found.status == "missing" and "file is a file" in found.found
        assert f"--{field} ~/" in found.fix, "outside of quotes, where the shell knows what ~ is"
    (tmp_path / "out" / "tiny").mkdir(parents=True)
    (tmp_path / "out" / "tiny" / "notes.txt").write_text("x")
    found = finding("folder save_dir", tiny.run(tmp_path))
    assert found.status == "missing" and "notes.txt" in found.found
    assert finding("folder save_dir", run_of(found.fix)).status == "ok"


def test_data_that_is_not_there_or_of_another_stage_is_missing(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "some.txt").write_text("a text")
    for path, stage, status in (
        (tmp_path / "nowhere.txt", "pretrain", "missing"),
        (tmp_path / "empty.txt", "pretrain", "missing"),
        (tmp_path, "pretrain", "missing"),
        (tmp_path / "some.txt", "pretrain", "ok"),
        ("tang5", "pretrain", "ok"),
        ("tang5", "sft", "missing"),
        ("world", "sft", "ok"),
    ):
        run = preset("lesson", stage).replace(data_path=str(path))
        found = finding("data", run, stage=stage)
        assert found.status == status, path
        assert not found.fix or run_of(found.fix) == run.replace(data_path="world")


def test_a_tokenizer_is_read_and_a_folder_of_that_name_is_not_overwritten(tmp_path):
    run = preset("lesson")
    assert finding("tokenizer", run.replace(tokenizer="minimind-6400")).found == "6,400 entries"
    found = finding("tokenizer", run.replace(tokenizer="my words"))
    assert (found.status, found.fix) == ("missing", "minimind tokenizer train --save_dir 'my words'")
    (tmp_path / "tokenizer.json").write_text("{")
    found = finding("tokenizer", run.replace(tokenizer=str(tmp_path)))
    assert found.status == "missing" and run_of(found.fix) == run


# --- weights and resume state ---------------------------------------------------------------------


def trained(folder: Path, **changes) -> RunConfig:
    run = tiny.run(folder, **changes)
    pretrain(run, say=lambda line: None, show_bar=False)
    return run


def test_missing_weights_come_with_the_command_that_makes_them(tmp_path):
    later = tiny.run(tmp_path, from_weight="first", save_weight="second")
    found = finding("weights", later)
    assert found.status == "missing" and "there are no weights at 'first'" in found.found
    made = run_of(found.fix)
    assert (made.from_weight, made.save_weight, made.save_dir) == ("none", "first", later.save_dir)
    pretrain(made.replace(max_steps=2, warmup_steps=1, world_documents=300), say=lambda line: None, show_bar=False)
    assert finding("weights", later).status == "ok"
    in_a_path = finding("weights", later.replace(from_weight=str(tmp_path / "other" / "third")))
    assert (run_of(in_a_path.fix).save_dir, run_of(in_a_path.fix).save_weight) == (str(tmp_path / "other"), "third")


def test_sft_without_pretrained_weights_is_told_to_pretrain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = finding("weights", preset("lesson", "sft"), stage="sft")
    assert (found.status, found.fix) == ("missing", "minimind pretrain")


@pytest.mark.parametrize("harm", ["no file", "cut"])
def test_weights_that_are_not_whole_are_missing(harm, tmp_path):
    run = trained(tmp_path)
    file = tmp_path / "out" / "tiny" / "model.safetensors"
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        file.unlink()
    found = finding("weights", run.replace(from_weight="tiny"))
    assert found.status == "missing"
    assert run_of(found.fix).save_weight == "tiny" and run_of(found.fix).from_weight == "none"


def test_good_weights_of_another_size_or_tokenizer_are_never_trained_over(tmp_path):
    run = trained(tmp_path)
    other_words = tmp_path / "out" / "other"
    tokenizer = load_tokenizer("minimind-6400")
    model = load_weights(tmp_path / "out" / "tiny")
    model.resize_token_embeddings(len(tokenizer))
    save_weights(model, tokenizer, other_words)
    for later in (
        run.replace(from_weight="tiny", hidden_size=32, intermediate_size=48, save_weight="second"),
        run.replace(from_weight="other", save_weight="second"),
    ):
        found = finding("weights", later)
        assert found.status == "missing"
        offered = run_of(found.fix)
        assert (offered.from_weight, offered.save_weight) == (later.from_weight, "second")
        assert finding("weights", offered).status == "ok"


def test_resume_state_is_verified(tmp_path):
    run = trained(tmp_path).replace(from_resume=1)
    assert finding("checkpoint", run).found == "step 6, verified"
    assert finding("checkpoint", run.replace(batch_size=4)).status == "missing", "another run's"
    for file in (tmp_path / "checkpoints" / "tiny").glob("*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    found = finding("checkpoint", run)
    assert found.status == "missing" and run_of(found.fix) == run.replace(from_resume=0)


# --- what a person reads --------------------------------------------------------------------------


def test_what_is_not_ok_must_come_with_its_command():
    with pytest.raises(AssertionError, match="comes with its command"):
        Finding("disk", "full", "some room", "missing")


def test_the_text_sums_up_packages_that_are_ok_and_shows_every_command():
    findings = [
        Finding("python", "3.11", "3.11"),
        Finding("package torch", "2.13", "2.13"),
        Finding("package numpy", "1.0", "2.4", "missing", "python -m pip install numpy"),
        Finding("weights", "a long sentence about weights that are not there", "first", "missing", "minimind pretrain"),
    ]
    text = as_text(findings)
    assert "1 as pinned" in text and "package torch" not in text
    assert "package torch" in as_text(findings, everything=True)
    for each in findings[2:]:
        assert each.found in text and f"-> {each.fix}\n" in text + "\n"
    assert max(len(line) for line in text.splitlines()) < 80
    assert as_text([]) == ""


@pytest.mark.parametrize("stage", STAGES)
def test_a_command_means_the_run_and_says_nothing_that_is_understood(stage):
    assert as_command(preset("lesson", stage), stage) == f"minimind {stage}"
    assert as_command(PRESETS["lab"]) == "minimind pretrain --preset lab"
    run = preset("lesson", stage).replace(save_dir="my folder", learning_rate=3e-4, samples=0)
    command = as_command(run, stage)
    assert run_of(command) == run
    assert "--save_dir 'my folder'" in command and "--seed" not in command
