"""The collector and the test item that take nbval's place for notebooks of the course."""

import json
import math
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError

from course.build.execute import CellStopped, NotebookKernel, errors_of, outputs_as_text
from course.build.sources import code_hash, stored_hashes, tags_of
from course.nbval_tolerant.noise import without_noise
from course.nbval_tolerant.numbers import Tolerance, differences

# Pictures differ in their bytes from machine to machine: that there is one is compared, not what it shows.
_PICTURES = ("image/png", "image/jpeg")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Put the tolerant collector where nbval would put its own."""
    collectors = yield
    return [
        LessonFile.from_parent(parent, path=file_path) if isinstance(collector, IPyNbFile) else collector
        for collector in collectors
    ]


class LessonFile(IPyNbFile):  # type: ignore[misc]  # nbval publishes no types
    """One built notebook: one kernel, one test per code cell, named by the cell's id."""

    def setup(self) -> None:
        """Start the kernel."""
        option = self.config.option
        if option.nbval_current_env:
            kernel_name = CURRENT_ENV_KERNEL_NAME
        else:
            kernel_name = option.nbval_kernel_name or self.nb.metadata.kernelspec.name
        self.lesson_kernel = NotebookKernel(self.nb, self.path.parent, option.nbval_cell_timeout, kernel_name)
        self.lesson_kernel.start()
        self.stopped_in = ""
        self.setup_sanitize_files()

    def teardown(self) -> None:
        """End the kernel."""
        if kernel := getattr(self, "lesson_kernel", None):
            kernel.stop()

    def collect(self) -> Iterator["LessonCell"]:
        """Yield one test per code cell.

        Raises:
            pytest.Collector.CollectError: The build did not write this notebook, or its cells are not those it wrote.
        """
        items = list(super().collect())
        built = list(stored_hashes(self.nb))
        present = [item.cell.get("id", "") for item in items]
        if not built:
            raise self.CollectError(
                f"{self.path} was not written by the build (it stores no code hashes); "
                "run `python -m course.build build`."
            )
        if built != present:
            moved = [cell_id for cell_id in (*built, *present) if (cell_id in built) != (cell_id in present)]
            what = ", ".join(moved) or "their order"
            raise self.CollectError(f"{self.path} does not have the cells that were built: {what} changed.")
        for item in items:
            yield LessonCell.from_parent(
                self, name=item.cell.id, cell_num=item.cell_num, cell=item.cell, options=item.options
            )


class LessonCell(IPyNbCell):  # type: ignore[misc]  # nbval publishes no types
    """One code cell: run it, and hold what it prints against what the notebook stores."""

    def setup(self) -> None:
        """Nothing to prepare; a cell after a stopped kernel fails rather than being expected to."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the test by its cell id."""
        return self.path, 0, f"{self.path.name}::{self.name}"

    def runtest(self) -> None:
        """Run the cell, and fail unless it did what the notebook says.

        Raises:
            NbCellError: With the reason, as nbval reports it.
        """
        notebook_file: LessonFile = self.parent
        if notebook_file.stopped_in:
            self.raise_cell_error(f"not run: the kernel ended in cell {notebook_file.stopped_in}")
        index = next(i for i, cell in enumerate(notebook_file.nb.cells) if cell is self.cell)
        try:
            computed = notebook_file.lesson_kernel.run_cell(index)
        except CellStopped as stopped:
            notebook_file.stopped_in = self.name
            self.raise_cell_error(f"the cell was stopped: {stopped}")
        self.test_outputs = computed.outputs
        self._check_stored_cell()
        self._check_errors(errors_of(computed))
        if self.options["check"] and (problems := self._compare(computed)):
            self.raise_cell_error("the output differs from the notebook's", "\n".join(problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """Show the cell, then what differs."""
        error = excinfo.value
        if not isinstance(error, NbCellError):
            return str(excinfo.getrepr(style="short"))
        shown = [f"Cell {self.name}: {error}"]
        if error.inner_traceback:
            shown.append(str(error.inner_traceback))
        return "\n\n".join([*shown, "The cell:", str(error.source)])

    def _check_stored_cell(self) -> None:
        if self.options["skip"]:
            self.raise_cell_error("it is marked to be skipped; a lesson's cells all run")
        if stored_hashes(self.parent.nb)[self.name] != code_hash(self.cell):
            self.raise_cell_error("its code or tags were edited after the notebook was built")
        if self.cell.execution_count is None:
            self.raise_cell_error("the stored cell was never run (it has no execution count)")

    def _check_errors(self, errors: list[NotebookNode]) -> None:
        expected = self.options["check_exception"]
        if errors and not expected:
            self.raise_cell_error(f"it raised {errors[0].ename}: {errors[0].evalue}", "\n".join(errors[0].traceback))
        if expected and not errors:
            self.raise_cell_error("it is tagged raises-exception, but nothing was raised")

    def _compare(self, computed: NotebookNode) -> list[str]:
        """Return one sentence per difference between the stored and the computed outputs."""
        stored_parts, computed_parts = self._comparable(self.cell), self._comparable(computed)
        tolerance = tolerance_of(self.cell)
        problems = []
        for kind in sorted(stored_parts.keys() | computed_parts.keys()):
            old, new = stored_parts[kind], computed_parts[kind]
            if len(old) != len(new):
                problems.append(f"{kind}: {len(old)} stored, {len(new)} now")
                problems += [f"  stored: {text[:300]}" for text in old] + [f"  now: {text[:300]}" for text in new]
                continue
            for stored_text, computed_text in zip(old, new, strict=True):
                found = differences(stored_text, computed_text, tolerance)
                problems += [f"{kind}, {sentence}" for sentence in found]
        return problems

    def _comparable(self, cell: NotebookNode) -> defaultdict[str, list[str]]:
        """Return the compared texts of a cell's outputs by kind; streams in one piece, as the build stores them."""
        parts: defaultdict[str, list[str]] = defaultdict(list)
        for kind, content in outputs_as_text(cell):
            if kind == "traceback" or kind.endswith("widget-view+json"):
                continue
            text = "<picture>" if kind in _PICTURES else without_noise(self.sanitize(_as_text(content)))
            if kind in ("stdout", "stderr") and parts[kind]:
                parts[kind][0] += text
            else:
                parts[kind].append(text)
        return parts


def tolerance_of(cell: NotebookNode) -> Tolerance:
    """Return how closely a cell's numbers are compared: the default, or what its tags `rtol=` and `atol=` say.

    Raises:
        ValueError: A tag's value is not a number from 0 to below 1.
    """
    given = {"rtol": Tolerance.rtol, "atol": Tolerance.atol}
    for tag in tags_of(cell):
        key, equals, value = tag.partition("=")
        if equals and key in given:
            given[key] = float(value)
            if not (math.isfinite(given[key]) and 0 <= given[key] < 1):
                raise ValueError(f"the tag {tag!r} needs a number from 0 to below 1, such as 'rtol=1e-2'")
    return Tolerance(**given)


def _as_text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, indent=1, sort_keys=True)
