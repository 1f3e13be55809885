"""Commits checkpoints in processes that kill themselves at a chosen change of the disk.

python commit_worker.py all ROOT fork|spawn SCENARIO...   one process for each change; prints what was done as JSON
python commit_worker.py one ROOT SCENARIO INDEX MODE      commit once and die at change number INDEX

Importing the package takes seconds, so one warm process forks a child for each change; where there is no fork, each
is a new interpreter. MODE is `before` the change, or `midway` in a write or a removal.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch

from minimind.train.checkpoint import Disk, Snapshot, commit

NO_PROCESS = 2**22 + 1  # above the largest process number that Linux or macOS gives out

# Scenario -> the step whose commit is killed.
SCENARIOS = {"second": 20, "third": 30, "damaged": 20, "again": 20}


def snapshot(step: int) -> Snapshot:
    """The content of a step: the same in every process, different for every step."""
    values = torch.arange(240, dtype=torch.float32).sin() * step
    return Snapshot(
        step,
        tensors={
            "model": {"embed": values.reshape(40, 6), "norm": values[:7].to(torch.bfloat16)},
            "optim": {"step": torch.tensor(step), "exp_avg": values.flip(0)},
            "rng/rank-00000": {"torch": torch.arange(step, dtype=torch.uint8)},
        },
        documents={"trainer": {"step": step, "loss": 1 / (step + 1)}, "rng/rank-00000": {"python": [step, None]}},
        identity={"config": "c" * 64},
    )


def prepare(root: Path, scenario: str) -> None:
    """What is on the disk when the commit begins."""
    commit(root, snapshot(10))
    if scenario == "second":  # with what an earlier process left when it was killed
        leftover = root / f".tmp-20-{NO_PROCESS}-0badc0de" / "rng"
        leftover.mkdir(parents=True)
        (leftover / "rank-00000.safetensors").write_bytes(b"half")
    else:
        path = commit(root, snapshot(20))
        if scenario == "damaged":
            (path / "trainer.json").write_bytes(b"")


def die() -> NoReturn:
    """End this process at once, with no clean-up of any kind."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    raise AssertionError("still alive")


class DeadlyDisk(Disk):
    """Records every change, and dies at number `index`."""

    def __init__(self, index: int | None = None, mode: str = "before") -> None:
        self.index, self.mode = index, mode
        self.events: list[tuple[str, str]] = []

    def event(self, name: str, path: Path) -> None:
        if len(self.events) == self.index:
            die()
        self.events.append((name, path.name))

    def _is_midway(self) -> bool:
        return len(self.events) == self.index and self.mode == "midway"

    def write(self, file: BinaryIO, path: Path, piece: bytes | memoryview) -> None:
        if self._is_midway():
            file.write(piece[: len(piece) // 2])
            file.flush()
            die()
        super().write(file, path, piece)

    def remove_tree(self, path: Path) -> None:
        if self._is_midway():
            next(entry for entry in sorted(path.rglob("*")) if entry.is_file()).unlink()
            die()
        super().remove_tree(path)


def run_one(root: Path, scenario: str, index: int | None, mode: str) -> DeadlyDisk:
    disk = DeadlyDisk(index, mode)
    commit(root, snapshot(SCENARIOS[scenario]), disk=disk)
    return disk


def exit_code_of_child(how: str, root: Path, scenario: str, index: int, mode: str) -> int:
    """The exit code as subprocess gives it: -9 when killed."""
    if how == "spawn":
        command = [sys.executable, __file__, "one", str(root), scenario, str(index), mode]
        return subprocess.run(command, check=False).returncode
    pid = os.fork()
    if pid == 0:
        try:
            run_one(root, scenario, index, mode)
        finally:
            os._exit(1)  # reached only when nothing killed it
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run_all(root: Path, how: str, scenario: str) -> list[dict[str, Any]]:
    template = root / scenario
    prepare(template, scenario)
    rehearsal = shutil.copytree(template, root / f"{scenario}-rehearsal")
    events = run_one(rehearsal, scenario, None, "before").events
    deaths = []
    for index, (name, file) in enumerate(events):
        for mode in ("before", "midway") if name in ("write", "remove_tree") else ("before",):
            folder = shutil.copytree(template, root / f"{scenario}-{index:03d}-{mode}")
            code = exit_code_of_child(how, folder, scenario, index, mode)
            death = {"folder": str(folder), "index": index, "event": name, "file": file, "mode": mode, "code": code}
            deaths.append(death)
    return deaths


def main(command: str, root: str, *rest: str) -> None:
    torch.set_num_threads(1)
    if command == "one":
        scenario, index, mode = rest
        run_one(Path(root), scenario, int(index), mode)
    else:
        how, *scenarios = rest
        print(json.dumps({scenario: run_all(Path(root), how, scenario) for scenario in scenarios}))


if __name__ == "__main__":
    main(*sys.argv[1:])
