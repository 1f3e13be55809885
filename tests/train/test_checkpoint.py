import errno
import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from minimind.train import checkpoint_files
from minimind.train.checkpoint import (
    CheckpointError,
    Disk,
    Manifest,
    Snapshot,
    commit,
    list_checkpoints,
    load,
    newest_verified,
    verify,
)

FILES = ["MANIFEST.json", "model.safetensors", "rng/rank-00000.safetensors", "trainer.json", "rng/rank-00000.json"]


def snapshot(step: int = 10, model: dict[str, Tensor] | None = None) -> Snapshot:
    values = torch.arange(1200, dtype=torch.float32).sin() * step
    return Snapshot(
        step,
        tensors={
            "model": model or {"w": values.reshape(40, 30), "b": values[:30].bfloat16()},
            "rng/rank-00000": {"state": torch.full((100,), step, dtype=torch.uint8)},
        },
        documents={"trainer": {"step": step, "history": [0.1, step]}, "rng/rank-00000": {"python": [step] * 20}},
        identity={"config": "c" * 64, "data": "d" * 64},
        world_size=3,
    )


def steps(root: Path) -> list[int]:
    return [step for step, _ in list_checkpoints(root)]


def content(root: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def forge_record(path: Path, name: str) -> None:
    """Change a manifest the way someone would who knows how its checksum is made: list `name` as it is now."""
    manifest = checkpoint_files._read_manifest(path / "MANIFEST.json")
    manifest.files[name] = checkpoint_files.hash_file(path / name)
    (path / "MANIFEST.json").write_bytes(manifest.to_bytes())


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A run with the good checkpoints 10 and 20."""
    for step in (10, 20):
        commit(tmp_path / "run", snapshot(step))
    return tmp_path / "run"


def assert_falls_back(root: Path, *reasons: str) -> None:
    """Step 20 is rejected for these reasons, by verify, load and newest_verified, which takes step 10."""
    path, [rejection] = newest_verified(root)
    assert path == root / "step-00000010"
    assert rejection.path == root / "step-00000020"
    for reason in reasons:
        assert reason in rejection.reason
    for read in (verify, load):
        with pytest.raises(CheckpointError) as error:
            read(root / "step-00000020")
        assert str(error.value) == rejection.reason


# What is saved comes back.


def test_everything_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = snapshot()
    path = commit(tmp_path / "a" / "b", saved)
    assert path == tmp_path / "a" / "b" / "step-00000010"
    found = load(path)
    assert (found.step, found.world_size) == (10, 3)
    assert found.identity == saved.identity
    assert found.documents == saved.documents
    assert list(found.tensors) == list(saved.tensors)
    manifest = verify(path)
    assert isinstance(manifest, Manifest)
    assert (manifest.step, manifest.world_size, manifest.identity) == (10, 3, saved.identity)
    assert set(manifest.files) == set(FILES) - {"MANIFEST.json"}
    assert manifest.files["trainer.json"].bytes == (path / "trainer.json").stat().st_size


def test_tensors_come_back_bit_for_bit_with_dtype_shape_and_order(tmp_path: Path) -> None:
    noise = torch.randint(0, 256, (6, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    saved = {str(dtype): noise.view(dtype) for dtype in checkpoint_files.DTYPE_NAMES if dtype != torch.bool}
    saved |= {"z bool": noise > 99, "scalar": torch.tensor(-0.0), "a nan": torch.tensor([float("nan"), -0.0])}
    saved |= {"count": torch.tensor(7), "empty": torch.zeros(0, 3), 'é\n"': torch.ones(3, dtype=torch.uint8)}
    found = load(commit(tmp_path, snapshot(model=saved))).tensors["model"]
    assert list(found) == list(saved)
    for name, tensor in saved.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(bits(found[name]), bits(tensor)), name


def test_a_file_of_several_chunks_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_files, "CHUNK_BYTES", 1000)
    saved = snapshot()
    found = load(commit(tmp_path, saved))
    assert torch.equal(found.tensors["model"]["w"], saved.tensors["model"]["w"])


def test_no_tensors_and_no_documents_come_back_as_none(tmp_path: Path) -> None:
    found = load(commit(tmp_path, Snapshot(0, tensors={"model": {}}, documents={"trainer": {}})))
    assert found == Snapshot(0, tensors={"model": {}}, documents={"trainer": {}})


def test_tied_and_non_contiguous_tensors_are_saved_by_value(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6).requires_grad_()
    saved = {
        "embed": base,
        "head": base,
        "transposed": base.t(),
        "columns": base[:, 1::2],
        "row": base[2],
        "expanded": base[:1].expand(5, 6),
        "one": base[2:3, 1:2],
        "one of every second": base[0, ::2][1:2],
        "negated": torch.tensor([1 + 2j]).conj().imag,
        "parameter": torch.nn.Parameter(base.detach()),
    }
    found = load(commit(tmp_path, snapshot(model=saved))).tensors["model"]
    for name, tensor in saved.items():
        assert torch.equal(found[name], tensor), name
        assert not found[name].requires_grad
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == len(saved)


def test_loaded_tensors_do_not_change_with_the_file(tmp_path: Path) -> None:
    saved = snapshot()
    path = commit(tmp_path, saved)
    found = load(path)
    file = path / "model.safetensors"
    with open(file, "r+b") as handle:
        handle.write(b"\xff" * file.stat().st_size)
    assert torch.equal(found.tensors["model"]["w"], saved.tensors["model"]["w"])


def test_the_safetensors_library_reads_the_files(tmp_path: Path) -> None:
    saved = snapshot(model={"w": torch.randn(3, 5), "flags": torch.tensor([True, False]), "half": torch.ones(3).half()})
    found = safetensors.torch.load_file(commit(tmp_path, saved) / "model.safetensors")
    assert found.keys() == saved.tensors["model"].keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in saved.tensors["model"].items())


def test_every_tensor_is_aligned_in_the_file(tmp_path: Path) -> None:
    saved = {
        "flag": torch.tensor([True] * 3),
        "half": torch.ones(3).half(),
        "count": torch.tensor(7),
        "w": torch.ones(3),
    }
    data = (commit(tmp_path, snapshot(model=saved)) / "model.safetensors").read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    assert header_bytes % 8 == 0
    assert all(header[name]["data_offsets"][0] % tensor.element_size() == 0 for name, tensor in saved.items())


def test_a_tuple_in_a_document_comes_back_as_a_list(tmp_path: Path) -> None:
    assert load(commit(tmp_path, Snapshot(1, documents={"d": {"t": (1, (2,))}}))).documents["d"] == {"t": [1, [2]]}


# What would not come back is refused before anything is touched.


class Subclass(Tensor):
    pass


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            Snapshot(1, documents={"trainer": {"h": [{"loss": 1}, {"loss": float("nan")}]}}),
            "trainer.json: h[1].loss is nan",
        ),
        (Snapshot(1, documents={"trainer": {"h": -float("inf")}}), "trainer.json: h is -inf"),
        (Snapshot(1, documents={"optim": {"state": {3: 1}}}), "optim.json: state[3] has a key that is not a string"),
        (Snapshot(1, documents={"optim": {"a": {"b": torch.ones(1)}}}), "optim.json: a.b is a Tensor"),
        (Snapshot(1, documents={"optim": [1]}), "optim.json must hold a JSON object, not a list"),  # type: ignore[dict-item]
        (Snapshot(1, tensors={"m": {"c": torch.ones(1, dtype=torch.complex64)}}), "'c' of m.safetensors has dtype"),
        (Snapshot(1, tensors={"m": {"s": torch.eye(2).to_sparse()}}), "'s' of m.safetensors has layout"),
        (Snapshot(1, tensors={"m": {"e": torch.ones(2, device="meta")}}), "'e' of m.safetensors has layout"),
        (Snapshot(1, tensors={"m": {"p": torch.ones(2).as_subclass(Subclass)}}), "'p' of m.safetensors is a Subclass"),
        (Snapshot(1, tensors={"m": {"n": 3}}), "'n' of m.safetensors is a int"),  # type: ignore[dict-item]
        (Snapshot(1, tensors={"m": {"__metadata__": torch.ones(1)}}), "needs another name"),
        (Snapshot(1, tensors={"../m": {}}), "'../m' cannot name a file"),
        (Snapshot(1, tensors={"/m": {}}), "'/m' cannot name a file"),
        (Snapshot(1, tensors={"M": {}}), "'M' cannot name a file"),
        (Snapshot(1, tensors={"m/../../x": {}}), "'m/../../x' cannot name a file"),
        (Snapshot(1, documents={"manifest": {}}), "'manifest' cannot name a file"),
        (Snapshot(-1), "step is -1"),
        (Snapshot(True), "step is True"),
        (Snapshot(1, world_size=0), "world_size is 0"),
        (Snapshot(1, identity={"config": None}), "identity['config'] is None"),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_come_back_is_refused_by_name_before_the_disk_is_touched(
    bad: Snapshot, words: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError) as error:
        commit(tmp_path / "run", bad)
    assert words in str(error.value)
    assert not (tmp_path / "run").exists()


def test_fewer_than_two_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep is 1: at least 2"):
        commit(tmp_path, snapshot(), keep=1)


# Damage is named, and an older checkpoint is taken.


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
@pytest.mark.parametrize("file", FILES)
def test_a_truncated_file_is_rejected_by_name(file: str, share: float, two: Path) -> None:
    path = two / "step-00000020" / file
    os.truncate(path, int(path.stat().st_size * share))
    assert_falls_back(two, str(path))


@pytest.mark.parametrize("file", FILES)
def test_one_flipped_bit_is_rejected_by_name(file: str, two: Path) -> None:
    path = two / "step-00000020" / file
    size = path.stat().st_size
    for number, position in enumerate((0, size // 3, size // 2, size - 1)):
        flip_bit(path, position, number)
        assert_falls_back(two, str(path))
        flip_bit(path, position, number)
    verify(two / "step-00000020")


def test_a_flipped_bit_at_any_byte_of_the_manifest_is_rejected(two: Path) -> None:
    path = two / "step-00000020"
    for position in range((path / "MANIFEST.json").stat().st_size):
        flip_bit(path / "MANIFEST.json", position, position % 7)
        with pytest.raises(CheckpointError, match=r"MANIFEST\.json"):
            verify(path)
        flip_bit(path / "MANIFEST.json", position, position % 7)


@pytest.mark.parametrize("file", FILES)
def test_a_deleted_file_is_rejected_by_name(file: str, two: Path) -> None:
    (two / "step-00000020" / file).unlink()
    assert_falls_back(two, f"{two / 'step-00000020' / file} is missing")


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_step_is_rejected_by_name(file: str, two: Path) -> None:
    shutil.copyfile(two / "step-00000010" / file, two / "step-00000020" / file)
    assert_falls_back(two, str(two / "step-00000020" / file))


def test_swapped_and_renamed_folders_are_rejected(two: Path) -> None:
    shutil.copytree(two / "step-00000010", two / "step-00000030")
    path, [rejection] = newest_verified(two)
    assert path.name == "step-00000020"
    assert "is that of step 10, but its folder is named step-00000030" in rejection.reason
    shutil.rmtree(two / "step-00000030")
    (two / "step-00000010").rename(two / "a")
    (two / "step-00000020").rename(two / "step-00000010")
    (two / "a").rename(two / "step-00000020")
    with pytest.raises(CheckpointError, match="all 2 were rejected"):
        newest_verified(two)


class Payload:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["x.pt", "optim.pth", "model.pkl", "weights.bin", "rng/rank-00001.pt", ".hidden"])
def test_a_malicious_pickle_is_never_executed(name: str, two: Path, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    (two / "step-00000020" / name).write_bytes(pickle.dumps(Payload(marker)))
    assert_falls_back(two, f"{two / 'step-00000020' / name} is unexpected")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.json"])
def test_a_malicious_pickle_with_a_forged_manifest_is_never_executed(name: str, two: Path, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    path = two / "step-00000020"
    (path / name).write_bytes(pickle.dumps(Payload(marker)))
    forge_record(path, name)
    assert_falls_back(two, str(path / name))
    assert not marker.exists()


def test_an_unexpected_file_is_not_even_opened(two: Path) -> None:
    extra = two / "step-00000020" / "model.pt"
    if hasattr(os, "mkfifo"):
        os.mkfifo(extra)  # opening it would wait for ever
    else:
        extra.mkdir()
    assert_falls_back(two, f"{extra} is unexpected")


def test_an_unexpected_folder_is_rejected(two: Path) -> None:
    (two / "step-00000020" / "notes").mkdir()
    assert_falls_back(two, "notes is unexpected")


@pytest.mark.parametrize("file", [*FILES, "extra", "rng"])
def test_a_symbolic_link_is_rejected_even_if_it_leads_to_the_right_bytes(file: str, two: Path) -> None:
    path = two / "step-00000020" / file
    if path.exists():
        path.rename(two / "moved")
    path.symlink_to(two / "moved" if (two / "moved").exists() else two)
    assert_falls_back(two, f"{path} is unexpected: a link")


def test_a_folder_that_is_a_symbolic_link_or_a_file_is_rejected(two: Path) -> None:
    (two / "step-00000020").rename(two / "moved")
    (two / "step-00000020").symlink_to(two / "moved")
    assert_falls_back(two, "is not a folder of its own")
    (two / "step-00000020").unlink()
    (two / "step-00000020").write_text("not a folder")
    assert_falls_back(two, "is not a folder of its own")


def test_another_format_version_is_rejected(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = two / "step-00000020"
    with monkeypatch.context() as later:
        later.setattr(checkpoint_files, "FORMAT_VERSION", 2)
        forged = verify(commit(two / "later", snapshot(20))).to_bytes()
    (path / "MANIFEST.json").write_bytes(forged)
    assert_falls_back(two, f"{path / 'MANIFEST.json'} has format version 2, but this version of minimind reads 1")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format_version": 1}', '{"format_version": NaN}', "\xff", "[" * 100_000]
)
def test_a_manifest_that_is_no_manifest_is_rejected(text: str, two: Path) -> None:
    (two / "step-00000020" / "MANIFEST.json").write_text(text, encoding="latin-1")
    assert_falls_back(two, "MANIFEST.json")


@pytest.mark.parametrize("text", ["{", "[1]", '{"loss": NaN}'])
def test_a_document_with_the_right_hash_that_cannot_be_read_is_rejected(text: str, two: Path) -> None:
    path = two / "step-00000020"
    (path / "trainer.json").write_text(text)
    forge_record(path, "trainer.json")
    assert_falls_back(two, str(path / "trainer.json"))


def test_a_manifest_that_leads_out_of_the_folder_is_rejected(two: Path) -> None:
    (two / "outside.json").write_text("{}")
    forge_record(two / "step-00000020", "../outside.json")
    assert_falls_back(two, "outside.json is missing")


def test_when_all_are_bad_each_is_named_with_its_reason(two: Path) -> None:
    (two / "step-00000010" / "trainer.json").unlink()
    flip_bit(two / "step-00000020" / "model.safetensors", 500)
    with pytest.raises(CheckpointError) as error:
        newest_verified(two)
    assert "no usable checkpoint; all 2 were rejected" in str(error.value)
    assert "step-00000010/trainer.json is missing" in str(error.value)
    assert "step-00000020/model.safetensors has sha256" in str(error.value)


def test_when_there_is_none_that_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / ".tmp-10-1-00").mkdir()
    (tmp_path / "step-10").mkdir()
    for root in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CheckpointError, match="holds no checkpoint"):
            newest_verified(root)
        assert list_checkpoints(root) == []


# A committed step is never written again.


def test_the_same_content_again_changes_nothing(two: Path) -> None:
    before = content(two)
    assert commit(two, snapshot(20)) == two / "step-00000020"
    assert content(two) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda new: new.tensors["model"]["w"].add_(1), "different: model.safetensors)"),
        (lambda new: new.documents.update(scaler={}), "different: scaler.json)"),
        (lambda new: new.identity.update(data="e" * 64), "different: identity)"),
        (lambda new: setattr(new, "world_size", 2), "different: world_size)"),
    ],
)
def test_other_content_for_a_good_step_is_refused(change: Callable[[Snapshot], object], words: str, two: Path) -> None:
    before, new = content(two), snapshot(20)
    change(new)
    with pytest.raises(CheckpointError) as error:
        commit(two, new)
    assert "already a good checkpoint of step 20" in str(error.value)
    assert words in str(error.value)
    assert content(two) == before


def test_a_damaged_step_is_set_aside_not_deleted(two: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip_bit(two / "step-00000020" / "model.safetensors", 500)
    before = {name: data for name, (data, _) in content(two / "step-00000020").items()}
    path = commit(two, snapshot(20))
    verify(path)
    [aside] = two.glob("step-00000020.rejected-*")
    assert {name: data for name, (data, _) in content(aside).items()} == before
    assert "was set aside" in caplog.text
    assert steps(two) == [10, 20]


# Old ones are removed, never the last good one.


@pytest.mark.parametrize("keep", [2, 3])
def test_the_newest_are_kept(keep: int, tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 50):
        commit(tmp_path, snapshot(step), keep=keep)
    assert steps(tmp_path) == [10, 20, 30, 40, 50][-keep:]
    assert all(path.name.startswith("step-") for path in tmp_path.iterdir())


def test_the_last_good_one_is_kept_while_newer_ones_are_damaged(tmp_path: Path) -> None:
    for step in (5, 10, 20, 30):
        commit(tmp_path, snapshot(step), keep=9)
    for step in (20, 30):
        flip_bit(tmp_path / f"step-{step:08d}" / "model.safetensors", 500)
    commit(tmp_path, snapshot(40), keep=2)
    assert steps(tmp_path) == [10, 20, 30, 40]
    (tmp_path / "step-00000040" / "trainer.json").unlink()
    path, rejections = newest_verified(tmp_path)
    assert path == tmp_path / "step-00000010"
    assert [rejection.path.name for rejection in rejections] == [f"step-{n:08d}" for n in (40, 30, 20)]


def test_a_commit_below_newer_steps_removes_neither_itself_nor_them(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        commit(tmp_path, snapshot(step), keep=9)
    assert commit(tmp_path, snapshot(15), keep=2).is_dir()
    assert steps(tmp_path) == [10, 15, 20, 30]


def test_an_old_folder_with_something_else_in_it_is_left(two: Path, caplog: pytest.LogCaptureFixture) -> None:
    (two / "step-00000010" / "notes.txt").write_text("mine")
    commit(two, snapshot(30))
    assert (two / "step-00000010" / "notes.txt").read_text() == "mine"
    assert "step-00000010 was left in place" in caplog.text


def test_nothing_is_removed_when_the_new_one_does_not_read_back(two: Path) -> None:
    class LyingDisk(Disk):
        def rename(self, old: Path, new: Path) -> None:
            super().rename(old, new)
            flip_bit(new / "model.safetensors", 500)

    with pytest.raises(CheckpointError, match=r"step-00000030/model\.safetensors has sha256"):
        commit(two, snapshot(30), disk=LyingDisk())
    assert newest_verified(two)[0].name == "step-00000020"
    assert steps(two) == [10, 20, 30]


def test_what_dead_processes_left_is_removed_and_counted(two: Path, caplog: pytest.LogCaptureFixture) -> None:
    dead = [two / f".tmp-30-{2**22 + 1}-00ff", two / f".tmp-30-{10**30}-00ff", two / f".tmp-30-{os.getpid()}-00ff"]
    others = [two / f".tmp-30-{os.getppid()}-00ff", two / ".tmp-notes"]
    for path in (*dead, *others):
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"half")
    commit(two, snapshot(20))
    assert not any(path.exists() for path in dead)
    assert all(path.exists() for path in others)
    assert "removed 3 unfinished checkpoint(s) of dead processes" in caplog.text


# The disk fails.


class FailingDisk(Disk):
    """Fails at change number `first`, and at those after it until `count` have failed."""

    def __init__(self, first: int, error: int = errno.ENOSPC, count: int = 1) -> None:
        self.failing, self.error, self.changes = range(first, first + count), error, 0

    def event(self, name: str, path: Path) -> None:
        self.changes += 1
        if self.changes - 1 in self.failing:
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("count", [1, 1000])
def test_a_full_disk_at_any_change_is_a_clean_error_and_removes_nothing(
    count: int, two: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rehearsal = FailingDisk(10**6)
    commit(shutil.copytree(two, tmp_path / "rehearsal"), snapshot(30), disk=rehearsal)
    errors = 0
    for change in range(rehearsal.changes):
        root = shutil.copytree(two, tmp_path / f"{change}")
        caplog.clear()
        try:
            commit(root, snapshot(30), disk=FailingDisk(change, count=count))
        except CheckpointError as error:
            errors += 1
            assert f"{root / 'step-00000030'} could not be saved: No space left on device" in str(error)
            assert "free some space" in str(error)
            assert isinstance(error.__cause__, OSError)
            assert count > 1 or not list(root.glob(".tmp-*"))
            verify(root / "step-00000010")
        else:  # the checkpoint was safe already: only the removal of an older one failed, and that is said
            assert any(record.levelno == logging.WARNING for record in caplog.records)
            verify(root / "step-00000030")
        verify(root / "step-00000020")
        assert commit(root, snapshot(30)) == newest_verified(root)[0] == root / "step-00000030"
        assert not list(root.glob(".tmp-*"))
    assert errors == rehearsal.changes - 3  # the last three remove step 10: rename, sync_folder, remove_tree


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.EACCES, "Make the folder writable"), (errno.EIO, "Check the disk")]
)
def test_every_disk_error_names_the_path_and_a_remedy(number: int, remedy: str, two: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        commit(two, snapshot(30), disk=FailingDisk(3, number))
    assert f"{two / 'step-00000030'} could not be saved: {os.strerror(number)}" in str(error.value)
    assert remedy in str(error.value)


def test_a_root_that_is_a_file_is_a_clean_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(CheckpointError, match="could not be saved"):
        commit(tmp_path / "run", snapshot())
    with pytest.raises(CheckpointError, match="could not be saved"):
        commit(tmp_path / "run" / "inner", snapshot())


def test_an_interrupt_leaves_nothing_half_written(two: Path) -> None:
    class InterruptedDisk(Disk):
        def event(self, name: str, path: Path) -> None:
            if path.name == "trainer.json":
                raise KeyboardInterrupt

    before = content(two)
    with pytest.raises(KeyboardInterrupt):
        commit(two, snapshot(30), disk=InterruptedDisk())
    assert content(two) == before


def test_every_change_passes_through_the_disk(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault tests see every change that a commit makes: none is made around the `Disk`."""
    announced: list[str] = []
    made: list[str] = []

    class ListeningDisk(Disk):
        def event(self, name: str, path: Path) -> None:
            announced.append(name)

    def spy(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    for name in ("fsync", "rename", "replace", "mkdir", "link", "symlink", "truncate"):
        spy(os, name)
    spy(shutil, "rmtree")
    commit(two, snapshot(30), disk=ListeningDisk())
    assert announced.count("sync_file") + announced.count("sync_folder") == made.count("fsync")
    assert announced.count("rename") == made.count("rename") == 2
    assert announced.count("make_folder") == made.count("mkdir") == 2
    assert announced.count("remove_tree") == made.count("rmtree") == 1
    assert set(made) == {"fsync", "rename", "mkdir", "rmtree"}
