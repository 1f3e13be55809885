"""A run continues from its own checkpoint, from no other, and never from scratch."""

import dataclasses
from pathlib import Path

import pytest

from minimind.config import RunConfig
from minimind.train import resume
from minimind.train.checkpoint import CheckpointError, Snapshot, commit, list_checkpoints
from minimind.train.resume import find_resume, set_aside, settings_of
from tests import tiny


def save(run: RunConfig, *steps: int) -> Path:
    root = Path(run.checkpoint_dir) / run.save_weight
    for step in steps:
        commit(root, Snapshot(step, documents={"trainer": {"run": settings_of(run)}}), keep=9)
    return root


@pytest.fixture
def run(tmp_path) -> RunConfig:
    return tiny.run(tmp_path)


def damage(path: Path) -> None:
    (path / "trainer.json").write_bytes(b"{}")


def test_a_run_that_does_not_resume_looks_for_nothing(run):
    save(run, 3)
    assert find_resume(run) is None


def test_the_newest_checkpoint_is_taken_and_named(run):
    root = save(run, 3, 6)
    found = find_resume(run.replace(from_resume=1))
    assert (found.snapshot.step, found.path) == (6, root / "step-00000006")
    assert found.notes == [f"resuming   {found.path} (step 6)"]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(run):
    root = save(run, 3, 6)
    damage(root / "step-00000006")
    found = find_resume(run.replace(from_resume=1))
    assert found.snapshot.step == 3
    assert "rejected" in found.notes[0] and "step-00000006" in found.notes[0] and "trainer.json" in found.notes[0]


def test_a_step_may_be_asked_for(run):
    root = save(run, 3, 6)
    assert find_resume(run.replace(from_resume=3)).snapshot.step == 3
    with pytest.raises(CheckpointError, match=r"from_resume=5: .*it has 3, 6"):
        find_resume(run.replace(from_resume=5))
    damage(root / "step-00000003")  # who asks for one does not get another
    with pytest.raises(CheckpointError, match=r"trainer\.json"):
        find_resume(run.replace(from_resume=3))


@pytest.mark.parametrize("asked", [1, 3])
def test_with_nothing_to_resume_there_is_no_run(asked, run):
    with pytest.raises(CheckpointError, match="checkpoint"):
        find_resume(run.replace(from_resume=asked))


def test_when_every_checkpoint_is_damaged_there_is_no_run(run):
    root = save(run, 3, 6)
    for _, path in list_checkpoints(root):
        damage(path)
    with pytest.raises(CheckpointError, match=r"(?s)all 2 were rejected.*step-00000006.*step-00000003"):
        find_resume(run.replace(from_resume=1))


OTHER = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 30,
    "tokenizer": "minimind-6400",
    "data_path": "plays",
    "world_documents": 70,
    "validation_documents": 9,
    "lenient": 1,
    "max_seq_len": 41,
    "packing": 1,
    "batch_size": 4,
    "accumulation_steps": 3,
    "optimizer": "muon",
    "seed": 1,
}


def test_every_setting_that_makes_another_run_is_tested_here():
    assert OTHER.keys() == resume.REFUSED
    assert {field.name for field in dataclasses.fields(RunConfig)} >= resume.REFUSED | resume.IGNORED


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_that_would_make_another_run_is_refused_by_name(name, run):
    save(run, 3)
    changed = run.replace(from_resume=1, **{name: OTHER[name]})
    with pytest.raises(CheckpointError) as raised:
        find_resume(changed)
    assert f"{name} was {getattr(run, name)!r} and is {OTHER[name]!r}" in str(raised.value)


def test_all_refused_settings_are_named_at_once(run):
    save(run, 3)
    with pytest.raises(CheckpointError, match=r"batch_size was 3 and is 4; seed was 42 and is 1"):
        find_resume(run.replace(from_resume=1, seed=1, batch_size=4))


@pytest.mark.parametrize(
    ("name", "value"), [("learning_rate", 1e-3), ("dropout", 0.0), ("max_steps", 9), ("save_interval", 2)]
)
def test_a_setting_that_may_change_is_listed_as_applied(name, value, run):
    save(run, 3)
    notes = find_resume(run.replace(from_resume=1, **{name: value})).notes
    assert notes[1:] == [f"applied    {name}: {getattr(run, name)!r} -> {value!r}"]


def test_weights_to_start_from_are_listed_as_ignored(run):
    save(run, 3)
    notes = find_resume(run.replace(from_resume=1, from_weight="other")).notes
    assert notes[1:] == ["ignored    from_weight: 'none' -> 'other' (the checkpoint's weights are used)"]


def test_a_setting_that_one_of_the_two_versions_does_not_know_is_refused(run):
    root = Path(run.checkpoint_dir) / run.save_weight
    older = {name: value for name, value in settings_of(run).items() if name != "beta2"}
    commit(root, Snapshot(3, documents={"trainer": {"run": older}}))
    with pytest.raises(CheckpointError, match="beta2 was 'absent' and is 0.95"):
        find_resume(run.replace(from_resume=1))


def test_an_earlier_run_of_the_same_name_is_set_aside_and_named(run):
    assert set_aside(run, None) == []
    for number in (1, 2):
        root = save(run, 3)
        (root / "metrics.jsonl").write_text(f"of run {number}")
        (note,) = set_aside(run, None)
        aside = root.with_name(f"tiny.before-{number}")
        assert str(aside) in note
        assert not root.exists()
        assert [step for step, _ in list_checkpoints(aside)] == [3]
        assert (aside / "metrics.jsonl").read_text() == f"of run {number}"


def test_a_run_that_goes_on_from_an_older_step_sets_the_later_ones_aside(run):
    root = save(run, 3, 6, 9)
    older = find_resume(run.replace(from_resume=3))
    (note,) = set_aside(run, older)
    aside = root.with_name("tiny.before-1")
    assert "step-00000006, step-00000009" in note and str(aside) in note
    assert [step for step, _ in list_checkpoints(root)] == [3]
    assert [step for step, _ in list_checkpoints(aside)] == [6, 9]
    assert set_aside(run, older) == []


def test_how_a_process_was_asked_to_continue_is_no_part_of_the_run(run):
    assert settings_of(run) == settings_of(run.replace(from_resume=1))
    assert settings_of(run).keys() | {"from_resume"} == run.__dataclass_fields__.keys()
