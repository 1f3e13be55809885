"""A Python that has the large libraries loaded, and runs each command in a fork of itself.

Importing torch and transformers takes longer than most tests do. Nothing of ours is loaded before the fork, so each
command imports the package as it stands on the disk at that moment.

In: one JSON object a line, the arguments of `_run`. Out: one line a command, its exit status.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType

OURS = ("minimind", "labs", "course", "tests")
FROM_ELSEWHERE = 90
"""Exit status when a package of ours was imported from outside the current folder: such a run proves nothing."""


def main(preload: list[str]) -> None:
    """Loads the libraries, says that it is ready, and runs what it is asked to until nobody asks any more."""
    importlib.import_module("tests.conftest")  # the environment that tests run in, set before torch is imported
    for name in preload:
        with suppress(ModuleNotFoundError):  # moved in another version; the command will load what it needs
            importlib.import_module(name)
    gc.freeze()  # what is loaded stays, so that no command searches it for garbage
    running: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        for pid in running:
            _kill_all_of(pid)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = _run(**json.loads(line))
            finally:
                os._exit(status)  # never back into the loop
        running.append(pid)
        _, status = os.waitpid(pid, 0)
        _kill_all_of(pid)  # processes that a test left behind
        running.clear()
        print(os.waitstatus_to_exitcode(status), flush=True)


def _kill_all_of(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _run(module: str, argv: list[str], output: str, limit_s: int, write_bytecode: bool) -> int:
    """What `python -m module argv` does, in this process.

    Args:
        module: to run.
        argv: its arguments.
        output: file that takes everything it prints.
        limit_s: the process is killed after so many seconds.
        write_bytecode: whether imports may leave compiled files; never while a mistake is in one of them.
    """
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(limit_s)
    with open(output, "wb") as file, open(os.devnull, "rb") as nothing:
        for descriptor, target in ((nothing.fileno(), 0), (file.fileno(), 1), (file.fileno(), 2)):
            os.dup2(descriptor, target)
    sys.dont_write_bytecode = not write_bytecode
    if not write_bytecode:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for processes that tests start
    sys.argv = [module, *argv]
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    if elsewhere := _from_elsewhere(Path.cwd()):
        print(f"imported from outside {Path.cwd()}: {', '.join(elsewhere)}")
        status = FROM_ELSEWHERE
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _from_elsewhere(here: Path) -> list[str]:
    """Files of our packages that were imported from outside the folder `here`."""
    files = [
        module.__file__
        for name, module in sys.modules.items()
        if name.partition(".")[0] in OURS and getattr(module, "__file__", None)
    ]
    return sorted(file for file in files if file and here not in Path(file).resolve().parents)


if __name__ == "__main__":
    main(sys.argv[1:])
