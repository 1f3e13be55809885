"""A process killed, or a machine without power, at any change of the disk leaves a good checkpoint to resume from."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch

from minimind.train.checkpoint import Disk, Snapshot, commit, load, newest_verified

WORKER = Path(__file__).with_name("commit_worker.py")
worker = runpy.run_path(str(WORKER))
snapshot = worker["snapshot"]
SCENARIOS: dict[str, int] = worker["SCENARIOS"]
KILLED = -getattr(signal, "SIGKILL", -signal.SIGTERM)

Deaths = dict[str, list[dict[str, Any]]]


def assert_same_bits(found: Snapshot, expected: Snapshot) -> None:
    assert (found.step, found.documents) == (expected.step, expected.documents)
    assert found.tensors.keys() == expected.tensors.keys()
    for stem, tensors in expected.tensors.items():
        assert list(found.tensors[stem]) == list(tensors)
        for name, tensor in tensors.items():
            other = found.tensors[stem][name]
            assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(other.reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


def assert_recovers(root: Path, steps: set[int], target: int) -> int:
    """A good checkpoint of one of `steps` is found, bit for bit, and the run can go on to commit `target`."""
    path, _ = newest_verified(root)
    found = load(path)
    assert found.step in steps
    assert_same_bits(found, snapshot(found.step))
    assert commit(root, snapshot(target)) == newest_verified(root)[0]
    assert_same_bits(load(newest_verified(root)[0]), snapshot(target))
    assert not list(root.glob(".tmp-*"))
    return found.step


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Deaths:
    how = "fork" if hasattr(os, "fork") else "spawn"
    command = [sys.executable, str(WORKER), "all", str(tmp_path_factory.mktemp("kills")), how, *SCENARIOS]
    deaths: Deaths = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return deaths


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_write_sync_and_rename_a_good_checkpoint_is_found(scenario: str, deaths: Deaths) -> None:
    target = SCENARIOS[scenario]
    before = {"second": 10, "third": 20, "damaged": 10, "again": 20}[scenario]
    renames = [death["index"] for death in deaths[scenario] if death["file"].startswith(f".tmp-{target}-")]
    last_rename = max((i for i in renames if event_at(deaths[scenario], i) == "rename"), default=-1)
    for death in deaths[scenario]:
        assert death["code"] == KILLED, death
        expected = target if death["index"] > last_rename else before
        assert assert_recovers(Path(death["folder"]), {expected}, target) == expected, death


def event_at(deaths: list[dict[str, Any]], index: int) -> str:
    return next(str(death["event"]) for death in deaths if death["index"] == index)


def test_the_enumeration_covers_every_kind_of_change(deaths: Deaths) -> None:
    kinds = {(death["event"], death["mode"]) for death in deaths["second"] + deaths["third"]}
    events = {"make_folder", "write", "sync_file", "sync_folder", "rename", "remove_tree"}
    assert kinds == {(event, "before") for event in events} | {("write", "midway"), ("remove_tree", "midway")}
    written = {death["file"] for death in deaths["second"] if death["event"] == "write"}
    assert written == {
        "model.safetensors",
        "optim.safetensors",
        "rank-00000.safetensors",
        "trainer.json",
        "rank-00000.json",
        "MANIFEST.json",
    }


def test_killed_while_a_step_is_committed_again_the_old_one_is_untouched(deaths: Deaths, tmp_path: Path) -> None:
    worker["prepare"](tmp_path, "again")
    expected = {path.name: path.read_bytes() for path in (tmp_path / "step-00000020").glob("*.*")}
    assert deaths["again"]
    for death in deaths["again"]:
        path = Path(death["folder"], "step-00000020")
        assert {file.name: file.read_bytes() for file in path.glob("*.*")} == expected


def test_killed_in_a_process_of_its_own_a_good_checkpoint_is_found(tmp_path: Path) -> None:
    """The way of a platform without fork, for one change: the rename."""
    root = tmp_path / "run"
    worker["prepare"](root, "second")
    events = worker["run_one"](shutil.copytree(root, tmp_path / "copy"), "second", None, "before").events
    index = [name for name, _ in events].index("rename")
    assert worker["exit_code_of_child"]("spawn", root, "second", index, "before") == KILLED
    assert_recovers(root, {10}, 20)


class PowerCutDisk(Disk):
    """Keeps, for every moment, what the disk is bound to hold if the power fails then.

    A file holds what it held when it was last synced, and a folder the names that it had when it was last synced.
    `names_at_once` is the other extreme that a file system may choose: names are on the disk at once, only the
    content of files waits for a sync.
    """

    def __init__(self, root: Path, survivors: Path, names_at_once: bool) -> None:
        self.root, self.survivors, self.names_at_once = root, survivors, names_at_once
        self.files: dict[int, bytes] = {}
        self.folders: dict[int, dict[str, int]] = {}
        self.count = 0
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                self._keep_folder(path)
            else:
                self.files[path.stat().st_ino] = path.read_bytes()

    def _keep_folder(self, path: Path) -> None:
        self.folders[path.stat().st_ino] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}

    def event(self, name: str, path: Path) -> None:
        self.cut()

    def cut(self) -> Path:
        """Build the folder that is found when the power comes back."""
        if self.names_at_once:
            for path in (self.root, *self.root.rglob("*")):
                if path.is_dir():
                    self._keep_folder(path)
        survivor = self.survivors / f"{self.count:03d}"
        self.count += 1
        self._build(survivor, self.root.stat().st_ino)
        return survivor

    def _build(self, path: Path, inode: int) -> None:
        path.mkdir(parents=True)
        for name, inner in self.folders[inode].items():
            if inner in self.folders:
                self._build(path / name, inner)
            else:
                (path / name).write_bytes(self.files.get(inner, b""))

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self.folders[path.stat().st_ino] = {}

    def write(self, file: BinaryIO, path: Path, piece: bytes | memoryview) -> None:
        if file.tell() == 0:  # the number of a removed file or folder may be in use again
            self.files.pop(path.stat().st_ino, None)
            self.folders.pop(path.stat().st_ino, None)
        super().write(file, path, piece)

    def sync_file(self, file: BinaryIO, path: Path) -> None:
        super().sync_file(file, path)
        self.files[path.stat().st_ino] = path.read_bytes()

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self._keep_folder(path)


@pytest.mark.parametrize("names_at_once", [False, True])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_power_at_every_change_a_good_checkpoint_is_found(
    scenario: str, names_at_once: bool, tmp_path: Path
) -> None:
    root, target = tmp_path / "run", SCENARIOS[scenario]
    worker["prepare"](root, scenario)
    disk = PowerCutDisk(root, tmp_path / "survivors", names_at_once)
    commit(root, snapshot(target), disk=disk)
    for survivor in sorted(disk.survivors.iterdir()):
        assert_recovers(survivor, {10, 20, target}, target)
    # What commit has returned is bound to be there.
    path, rejections = newest_verified(disk.cut())
    assert_same_bits(load(path), snapshot(target))
    assert not rejections


def test_nothing_is_removed_before_the_new_checkpoint_is_on_the_disk(tmp_path: Path) -> None:
    worker["prepare"](tmp_path / "run", "third")
    events = worker["run_one"](shutil.copytree(tmp_path / "run", tmp_path / "copy"), "third", None, "before").events
    final_rename = next(i for i, (name, file) in enumerate(events) if name == "rename")
    assert events[final_rename][1].startswith(".tmp-30-")
    assert events[final_rename + 1] == ("sync_folder", "copy")
    assert events[final_rename + 2 :][0] == ("rename", "step-00000010")
    assert {name for name, _ in events[: final_rename + 1]} == {
        "make_folder",
        "write",
        "sync_file",
        "sync_folder",
        "rename",
    }
