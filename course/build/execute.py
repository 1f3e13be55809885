"""Run a notebook as the build does: one kernel, cells in order, through nbclient.

The nbval plugin runs its cells through the same class, so that what it compares was made as what is stored.
"""

import copy
import math
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

from course.build.files import write_notebook
from course.build.kernel_client import WakefulKernelClient
from course.build.sources import VARIANTS, notebook_path, read_lesson, tags_of

ROOT = Path(__file__).resolve().parents[2]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# Without these a kernel prints the same everywhere: pytest's variable switches off ipykernel's capture of what
# subprocesses print, the others change how plots and long lines come out.
_DROPPED_VARIABLES = ("PYTEST_CURRENT_TEST", "MPLBACKEND", "COLUMNS", "LINES")


class ExecutionError(ValueError):
    """A lesson that did not run; the message names the cell and what it raised."""


class CellStopped(ExecutionError):
    """A cell that ended its kernel: it ran into the time limit, or the kernel died."""


def kernel_environment() -> dict[str, str]:
    """Return the environment of an unattended kernel: no person answers, nothing is fetched."""
    environment = {key: value for key, value in os.environ.items() if key not in _DROPPED_VARIABLES}
    return environment | {"MINIMIND_COURSE_UNATTENDED": "1", "HF_HUB_OFFLINE": "1"}


class NotebookKernel:
    """One kernel that runs the cells of one notebook.

    Args:
        notebook: Not changed; cells are run in a copy.
        folder: The kernel's working folder (for nbval and JupyterLab: where the notebook lies).
        cell_timeout_s: Seconds that one cell may take.
        kernel_name: A Jupyter kernel; the Python that runs this by default.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        folder: Path,
        cell_timeout_s: float,
        kernel_name: str = CURRENT_ENV_KERNEL_NAME,
    ) -> None:
        self.notebook: NotebookNode = copy.deepcopy(notebook)
        self._folder = folder
        self._cell_timeout_s = cell_timeout_s
        self._kernel_name = kernel_name
        self._client: NotebookClient | None = None
        self._stack = ExitStack()

    def start(self) -> None:
        """Start the kernel."""
        manager = AsyncKernelManager(
            kernel_name=self._kernel_name,
            kernel_spec_manager=NbvalKernelspecManager(),
            client_factory=WakefulKernelClient,
        )
        client = NotebookClient(
            self.notebook,
            km=manager,
            timeout=max(1, math.ceil(self._cell_timeout_s)),
            coalesce_streams=True,
            record_timing=False,
            store_widget_state=True,  # Output widgets show what they captured only with it; the state is not kept
        )
        self._stack.enter_context(
            client.setup_kernel(
                cleanup_kc=True,
                cwd=str(self._folder),
                env=kernel_environment(),
                stderr=subprocess.DEVNULL,
            )
        )
        self._client = client

    @property
    def is_alive(self) -> bool:
        """Whether the kernel can still run cells."""
        return self._client is not None

    def run_cell(self, index: int) -> NotebookNode:
        """Run one cell and return it with its outputs and execution count.

        A cell that raises is returned like any other, with an output of type "error".

        Args:
            index: Position in the notebook, text cells counted.

        Raises:
            CellStopped: The time limit was reached or the kernel died; the kernel is gone afterwards.
        """
        if self._client is None:
            raise CellStopped("the kernel is not running")
        cell: NotebookNode = self.notebook.cells[index]
        try:
            self._client.execute_cell(cell, index)
        except CellExecutionError:
            pass  # the error is among the outputs, where the caller looks
        except CellTimeoutError as error:
            self._client.shutdown_kernel = "immediate"  # it does not listen
            self.stop()
            raise CellStopped(f"it ran longer than {self._cell_timeout_s:g} s") from error
        except DeadKernelError as error:
            self.stop()
            raise CellStopped("its kernel died") from error
        clean_outputs(cell)
        return cell

    def stop(self) -> None:
        """End the kernel; harmless when it is gone already."""
        self._client = None
        self._stack.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def errors_of(cell: NotebookNode) -> list[NotebookNode]:
    """Return the error outputs of a code cell."""
    return [output for output in cell.outputs if output.output_type == "error"]


def clean_outputs(cell: NotebookNode) -> None:
    """Take out of a cell's outputs what belongs to one run or one machine.

    Widget views point into a widget state that is not kept; frames of a traceback name folders of this machine.
    """
    kept = []
    for output in cell.get("outputs", []):
        if "data" in output:
            output["data"].pop(WIDGET_VIEW, None)
            if not output["data"]:
                continue
        if output.output_type == "error":
            output["traceback"] = [_relative(line) for line in output["traceback"]]
        kept.append(output)
    if "outputs" in cell:
        cell["outputs"] = kept


def _relative(text: str) -> str:
    """Shorten paths below the repository, the Python installation and the home folder."""
    text = text.replace(f"{ROOT}{os.sep}", "")
    for folder, short in ((sys.prefix, "<python>"), (str(Path.home()), "~")):
        if folder != os.sep:
            text = text.replace(folder, short)
    return text


def execute(notebook: NotebookNode, folder: Path, cell_timeout_s: float = 600) -> NotebookNode:
    """Run a notebook top to bottom and return the executed copy, without widget state.

    Args:
        notebook: As `Lesson.notebook` makes it.
        folder: Working folder of the kernel.
        cell_timeout_s: Seconds that one cell may take.

    Raises:
        ExecutionError: A cell raised without the tag `raises-exception`, did not raise with it, or stopped its kernel.
    """
    with NotebookKernel(notebook, folder, cell_timeout_s) as kernel:
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            try:
                errors = errors_of(kernel.run_cell(index))
            except CellStopped as stopped:
                raise ExecutionError(f"cell {cell.id}: {stopped}.") from stopped
            expected = "raises-exception" in tags_of(cell)
            if errors and not expected:
                traceback = "\n".join(errors[0].traceback)
                raise ExecutionError(f"cell {cell.id}: {errors[0].ename}: {errors[0].evalue}\n{traceback}")
            if expected and not errors:
                raise ExecutionError(f"cell {cell.id}: tagged raises-exception, but nothing was raised.")
        executed = kernel.notebook
    executed.metadata.pop("widgets", None)
    executed.metadata["language_info"] = {"name": "python"}  # nbclient writes this machine's Python version
    return executed


def build_lesson(source: Path, notebooks: Path, cell_timeout_s: float = 600) -> list[Path]:
    """Build and execute both notebooks of a lesson, then write them.

    Nothing is written unless both ran.

    Args:
        source: The lesson source.
        notebooks: The student's notebook goes here, the solved one under `solutions/`.
        cell_timeout_s: Seconds that one cell may take.

    Returns:
        The files written.

    Raises:
        SourceError: The source is not well-formed.
        ExecutionError: A cell did not run as its tags say.
    """
    lesson = read_lesson(source)
    executed: dict[Path, NotebookNode] = {}
    for variant in VARIANTS:
        path = notebook_path(notebooks, lesson.name, variant)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            executed[path] = execute(lesson.notebook(variant), path.parent, cell_timeout_s)
        except ExecutionError as error:
            raise ExecutionError(f"{source} ({variant}), {error}") from error
    for path, notebook in executed.items():
        write_notebook(notebook, path)
    return list(executed)


def outputs_as_text(cell: NotebookNode) -> list[tuple[str, Any]]:
    """Return (kind, content) of everything a code cell's outputs hold, flattened.

    Kinds are "stdout", "stderr", MIME types, "error name", "error message" and "traceback".
    """
    flat: list[tuple[str, Any]] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            flat.append((output.name, output.text))
        elif output.output_type == "error":
            flat += [("error name", output.ename), ("error message", output.evalue)]
            flat.append(("traceback", "\n".join(output.traceback)))
        else:
            flat += sorted(output.get("data", {}).items())
    return flat
