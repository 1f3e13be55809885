"""Pretrains in processes that kill themselves, each at a chosen moment.

python pretrain_worker.py all DEATHS    one process for each death of a JSON list; prints their exit codes as JSON
python pretrain_worker.py one DEATH     one run that dies as the JSON object says

A death is {"run": a TOML file, "kind": "change", "at": number of the change of the disk before which to die},
{"kind": "event", "at": number of the event of a training step}, or {"kind": "weights"}: before weights are written.
Importing the package takes seconds, so one warm process forks a child for each; without fork, each is a new one.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from minimind.config import RunConfig
from minimind.train import stage
from minimind.train.checkpoint import Disk
from minimind.train.pretrain import pretrain


def die(*arguments: Any, **settings: Any) -> NoReturn:
    """End this process at once, with no clean-up of any kind."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    raise AssertionError("still alive")


def run_one(death: dict[str, Any]) -> None:
    seen = 0

    def count(kind: str) -> None:
        nonlocal seen
        if death["kind"] == kind:
            if seen == death["at"]:
                die()
            seen += 1

    Disk.event = lambda self, name, path: count("change")  # type: ignore[method-assign]
    if death["kind"] == "weights":
        stage.save_weights = die
    run = RunConfig().merged_with_toml(Path(death["run"]))
    pretrain(run, say=lambda line: None, show_bar=False, emit=lambda name, /, **payload: count("event"))


def exit_code(death: dict[str, Any]) -> int:
    """The exit code as subprocess gives it: -9 when killed."""
    if not hasattr(os, "fork"):
        return subprocess.run([sys.executable, __file__, "one", json.dumps(death)], check=False).returncode
    pid = os.fork()
    if pid == 0:
        try:
            run_one(death)
        finally:
            os._exit(1)  # reached only when nothing killed it
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    what = json.loads(sys.argv[2])
    if sys.argv[1] == "one":
        run_one(what)
    else:
        print(json.dumps([exit_code(death) for death in what]))
