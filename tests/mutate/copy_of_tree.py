"""A copy of the working tree in which mistakes can be made, with a warm Python in it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.mutate.mutation import Mutation

LIMIT_S = 600
"""A command that takes longer is killed."""


@dataclass(frozen=True)
class Run:
    """What came of one command: its exit status (negative when it was killed), and all that it printed."""

    status: int
    output: str


class Copy:
    """A copy of a working tree; a context manager, since a process lives in it.

    Args:
        root: the working tree.
        folder: an empty folder; the copy is made inside it.
        preload: libraries to import once for all commands.
    """

    def __init__(self, root: Path, folder: Path, preload: Sequence[str] = ()):
        self.folder, self.tree = folder, folder / "tree"
        copy_tree(root, self.tree)
        self._log = (folder / "python.log").open("w+", encoding="utf-8")
        self._python = subprocess.Popen(
            [sys.executable, "-m", "tests.mutate.warm_python", *preload],
            cwd=self.tree,
            env={**os.environ, "PYTHONPATH": str(self.tree)},  # before anything that is installed
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._python.stdin is not None and self._python.stdout is not None
        self._python.terminate()  # it takes the command that it runs with it
        self._python.wait()
        for stream in (self._python.stdin, self._python.stdout, self._log):
            stream.close()

    def run(self, module: str, argv: Sequence[str], write_bytecode: bool = False) -> Run:
        """Runs `python -m module argv` in the copy.

        Raises:
            RuntimeError: the process that runs commands is gone; the message holds what it said.
        """
        if not self._ready:
            self._ready = self._answer() == "ready"
        output = self.folder / "output"
        request = {
            "module": module,
            "argv": list(argv),
            "output": str(output),
            "limit_s": LIMIT_S,
            "write_bytecode": write_bytecode,
        }
        assert self._python.stdin is not None
        print(json.dumps(request), file=self._python.stdin, flush=True)
        status = int(self._answer())
        return Run(status, output.read_text(encoding="utf-8", errors="replace"))

    def _answer(self) -> str:
        assert self._python.stdout is not None
        line = self._python.stdout.readline().strip()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"the Python in {self.tree} is gone:\n{self._log.read()}")
        return line

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The copy with one mistake in it; as before afterwards.

        Raises:
            DoesNotApply: the mutation is not of this tree.
        """
        path = self.tree / mutation.file
        text = mutation.mutated(self.tree)
        kept = self.folder / "kept"
        shutil.copy2(path, kept)  # with its time
        path.write_text(text, encoding="utf-8")
        # A compiled file is used when time and size of the source agree; this time is never that of the source.
        os.utime(path, (1.0, 1.0))
        try:
            yield
        finally:
            os.replace(kept, path)


def copy_tree(root: Path, target: Path) -> None:
    """Copies all that is not ignored by git, tracked or not; no environment, no caches, nothing that a student made."""
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    anywhere = shutil.ignore_patterns(".git", *(p for p in patterns if not p.startswith("/")))
    at_the_top = shutil.ignore_patterns(*(p.removeprefix("/") for p in patterns if p.startswith("/")))

    def ignored(folder: str, names: list[str]) -> set[str]:
        environments = {name for name in names if (Path(folder) / name / "pyvenv.cfg").is_file()}
        top = at_the_top(folder, names) if Path(folder) == root else set()
        return anywhere(folder, names) | top | environments

    shutil.copytree(root, target, ignore=ignored)
