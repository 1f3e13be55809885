"""Promises of the nbval plugin: what counts as equal, and what a changed notebook cannot get past.

The comparison is a table without kernels. Everything that needs kernels runs once, in one pytest process over a
folder of small notebooks, and each test asks that run about its own cell.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from course.build.execute import ROOT, execute
from course.build.files import new_notebook, write_notebook
from course.build.sources import code_hashes, read_lesson
from course.nbval_tolerant.noise import without_noise
from course.nbval_tolerant.numbers import Tolerance, differences
from course.nbval_tolerant.plugin import tolerance_of

EQUAL = [
    ("", ""),
    ("loss = 2.3045", "loss = 2.3045"),
    ("loss = 2.3045", "loss = 2.3046"),  # one unit in the last place
    ("loss = 3.9999", "loss = 4.0001"),  # across a border, within rtol
    ("loss = 2.30", "loss = 2.31"),  # three significant digits
    ("norm = 1.234e-05", "norm = 1.235e-05"),
    ("x = 0.1", "x = 0.10000000000000001"),
    ("x = 0.123", "x = 0.1234"),
    ("lr = 0.00052341", "lr = 0.00052343"),
    ("big = 12345.6", "big = 12346.5"),  # within rtol
    ("zero = 0.0", "zero = -0.0"),
    ("zero = 0.000", "zero = 0.0"),
    ("tensor([ 0.1234, -5.6789])", "tensor([0.1234, -5.6790])"),  # columns shift
    ("a  1.50\nb 10.25", "a 1.50\nb  10.26"),
    ("[1.e-05 2.e+00]", "[1.e-05 2.e+00]"),
    ("loss = nan, -inf", "loss = nan, -inf"),
    ("The loss is 2.3045.", "The loss is 2.3046."),
    ("ratio 99.87%", "ratio 99.88%"),
    ("损失2.3045", "损失2.3046"),
    ("1.234 - 5.678", "1.234 - 5.679"),
    ("<td>0.12345</td>", "<td>0.12346</td>"),
]

DIFFERENT = [
    ("lr = 0.0005", "lr = 0.0006"),
    ("lr = 0.0005", "lr = 0.00052"),  # a learning rate 4 % off
    ("lr = 5.000e-04", "lr = 5.200e-04"),
    ("delta = 0.0", "delta = 0.09"),
    ("delta = 0.00", "delta = 0.01"),
    ("x = 0.0", "x = 1e-9"),
    ("x = 0.10", "x = 0.11"),  # two significant digits
    ("x = 9.9", "x = 10.0"),
    ("x = 0.5", "x = 0.512"),
    ("loss = 2.3045", "loss = 2.3048"),
    ("loss = 2.3045", "loss = 2.4045"),
    ("loss = 2.30", "loss = 2.33"),
    ("norm = 1.234e-05", "norm = 1.234e-06"),
    ("x = 1.5", "x = -1.5"),
    ("x = -0.0001", "x = 0.0001"),
    ("x = +1.5", "x = -1.5"),
    ("x - 1.5", "x + 1.5"),
    ("shape (2, 48, 6400)", "shape (2, 48, 6401)"),
    ("shape (2, 48)", "shape (2, 48, 1)"),
    ("parameters 63,912,192", "parameters 63,912,193"),
    ("parameters 63912192", "parameters 63912193"),
    ("torch.Size([1000000])", "torch.Size([1000001])"),
    ("n = 3", "n = 3.0"),  # an integer that became a float
    ("n = 100000", "n = 1e5"),
    ("n is 1234.", "n is 1235."),  # the point ends the sentence
    ("loss = nan", "loss = 2.3045"),
    ("loss = 2.3045", "loss = nan"),
    ("loss = inf", "loss = -inf"),
    ("layers.0.attn 1.500", "layers.1.attn 1.500"),
    ("layers.0", "layers.1"),
    ("torch 2.13.0", "torch 2.14.0"),
    ("torch 2.13.0", "torch 2.13.1"),
    ("float32", "float64"),
    ("64x2", "64x3"),
    ("0.1234M", "0.1235M"),
    ("2026-11-30", "2026-11-29"),
    ("loss = 2.3045", "less = 2.3045"),
    ("halved: True", "halved: False"),
    ("if x:\n    y = 1", "if x:\n  y = 1"),  # shown source: indentation is code
    ("1.000 2.000", "1.000"),
    ("one\ntwo", "one"),
    ("one", "one\n1.000"),
    ("one\n", "one"),
    ("1.25e-07kg", "1.26e-07kg"),
    ("a b", "ab"),
    ("1 .5", "1.5"),
]


@pytest.mark.parametrize(("stored", "computed"), EQUAL)
def test_numbers_that_only_rounded_differently_are_equal(stored: str, computed: str) -> None:
    assert differences(stored, computed, Tolerance()) == []
    assert differences(computed, stored, Tolerance()) == []


@pytest.mark.parametrize(("stored", "computed"), DIFFERENT)
def test_a_number_or_a_word_that_moved_is_different(stored: str, computed: str) -> None:
    assert differences(stored, computed, Tolerance()) != []
    assert differences(computed, stored, Tolerance()) != []


@pytest.mark.parametrize(
    ("tags", "stored", "computed", "equal"),
    [
        (["rtol=1e-2"], "loss 0.52", "loss 0.525", True),
        (["rtol=1e-2"], "loss 2.3045", "loss 2.3245", True),
        (["rtol=1e-2"], "loss 2.3045", "loss 2.3345", False),
        (["atol=0.1"], "delta 0.0", "delta 0.09", True),
        (["atol=0.1"], "delta 0.0", "delta 0.11", False),
        (["rtol=0"], "loss 2.30456", "loss 2.30460", False),
        (["rtol=1e-2"], "steps 1000", "steps 1001", False),
    ],
)
def test_a_cells_tags_set_its_tolerance(tags: list[str], stored: str, computed: str, equal: bool) -> None:
    tolerance = tolerance_of(new_code_cell("", metadata={"tags": tags}))
    assert (differences(stored, computed, tolerance) == []) is equal


def test_a_tolerance_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="rtol=nan"):
        tolerance_of(new_code_cell("", metadata={"tags": ["rtol=nan"]}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("minimind/train/step.py:41", "minimind/train/step.py:57"),
        ("step.py:41-58 shows it", "step.py:7-9 shows it"),
        ("<object at 0x7fba88bc2610>", "<object at 0x7fba88bc2777>"),
        ("/tmp/ipykernel_12/345.py:1: UserWarning: x", "/var/tmp/ipykernel_99/1.py:1: UserWarning: x"),
        ("100%|###| 20/20 [00:00<00:00, 812.34it/s]", "100%|###| 20/20 [00:01<00:00, 11.1it/s]"),
        ("20it [01:02:03, 8.34it/s]", "20it [00:07, 99.1it/s]"),
        ('<td id="T_1a2b3_row0">', '<td id="T_99999_row0">'),
        (f"{ROOT}/labs", "<root>/labs"),
        ("\x1b[31mred\x1b[0m", "red"),
        ('<img src="data:image/png;base64,iVBORw0=">', '<img src="data:image/png;base64,AAAA">'),
    ],
)
def test_noise_of_a_run_is_not_compared(before: str, after: str) -> None:
    assert without_noise(before) == without_noise(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("minimind/train/step.py:41", "minimind/train/loop.py:41"),
        ("line 41", "line 42"),
        ("0x1f", "0x2f"),
        ("20/20 [00:00<00:00, 1it/s]", "19/20 [00:00<00:00, 1it/s]"),
        ("[0, 1]", "[0, 2]"),
    ],
)
def test_what_only_looks_like_noise_is_compared(before: str, after: str) -> None:
    assert without_noise(before) != without_noise(after)


def test_the_report_says_which_number_moved_by_how_much_and_what_is_allowed() -> None:
    [sentence] = differences("step 1\nloss = 2.0000 lr = 0.5", "step 1\nloss = 2.1000 lr = 0.5", Tolerance())
    assert sentence.startswith("line 2: 2.0000 became 2.1000 (moved by 0.1, 5 %; 0.00021 is allowed)")
    assert "loss = 2.1000 lr = 0.5" in sentence
    [sentence] = differences("(2, 48)", "(2, 64)", Tolerance())
    assert "48 became 64: integers are compared exactly" in sentence
    assert len(differences("\n".join("abcdefghi"), "\n".join("rstuvwxyz"), Tolerance())) == 6


# ---------------------------------------------------------------------------------------------------------------------
# Notebooks under a real pytest
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """One cell as it is stored, with what the stored notebook claims that it printed."""

    id: str
    code: str
    stored: str | None = None
    tags: tuple[str, ...] = ()
    stored_outputs: tuple[NotebookNode, ...] = ()
    count: bool = True
    edited_to: str | None = None


def store(path: Path, cells: list[Cell], change: Callable[[NotebookNode], None] | None = None) -> None:
    nodes = []
    for count, cell in enumerate(cells, start=1):
        outputs = list(cell.stored_outputs)
        if cell.stored is not None:
            outputs.append(new_output("stream", name="stdout", text=cell.stored))
        metadata = {"tags": list(cell.tags)}
        count_or_none = count if cell.count else None
        nodes.append(
            new_code_cell(cell.code, id=cell.id, metadata=metadata, outputs=outputs, execution_count=count_or_none)
        )
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = new_notebook(nodes, {"kernelspec": kernel, "course": {"code": code_hashes(nodes)}})
    for node, cell in zip(notebook.cells, cells, strict=True):
        if cell.edited_to is not None:
            node.source = cell.edited_to
    if change is not None:
        change(notebook)
    path.parent.mkdir(exist_ok=True)
    write_notebook(notebook, path)


# The sleep: ipykernel forwards what a child writes in the background, and a loaded machine would show it a cell late.
CHILD = "import subprocess, time\ndone = subprocess.run(['echo', 'from a child'])\ntime.sleep(1)"
PICTURE = "from IPython.display import display_png\ndisplay_png(bytes([137, 80, 78, 71]), raw=True)"


def picture(data: str) -> NotebookNode:
    return new_output("display_data", {"image/png": data})


def zero_division(message: str) -> NotebookNode:
    return new_output("error", ename="ZeroDivisionError", evalue=message, traceback=["elsewhere"])


CELLS = [
    Cell("same", "print('loss', 2.3045)", "loss 2.3045\n"),
    Cell("rounded", "print('loss', 2.3045)", "loss 2.3046\n"),
    Cell("moved", "print('loss', 2.3045)", "loss 2.4045\n"),
    Cell("learning-rate", "print('lr', 0.0005)", "lr 0.00052\n"),
    Cell("integer", "print((2, 48))", "(2, 64)\n"),
    Cell("text", "print('halved: True')", "halved: False\n"),
    Cell("loose", "print(2.3045)", "2.3200\n", tags=("rtol=1e-2",)),
    Cell("ignored", "print(2.3045)", "another text\n", tags=("nbval-ignore-output",)),
    Cell("ignored-but-raises", "1 / 0", "another text\n", tags=("nbval-ignore-output",)),
    Cell("location", "print('minimind/train/step.py:41')", "minimind/train/step.py:57\n"),
    Cell("never-run", "x = 1", count=False),
    Cell("never-run-ignored", "x = 1", count=False, tags=("nbval-ignore-output",)),
    Cell("raises", "1 / 0", stored_outputs=(zero_division("division by zero"),), tags=("raises-exception",)),
    Cell("raises-other", "1 / 0", stored_outputs=(zero_division("float"),), tags=("raises-exception",)),
    Cell("raises-nothing", "x = 1", tags=("raises-exception",)),
    Cell("raises-untagged", "1 / 0"),
    Cell("skipped", "x = 1", tags=("nbval-skip",)),
    Cell("skipped-by-comment", "# NBVAL_SKIP\nx = 1"),
    Cell("edited", "x = 1", edited_to="x = 2"),
    Cell("silent", "x = 1", "a line that no longer comes\n"),
    Cell("talkative", "print('new')"),
    Cell("picture", PICTURE, stored_outputs=(picture("b3RoZXI="),)),
    Cell("picture-gone", "x = 1", stored_outputs=(picture("b3RoZXI="),)),
    Cell("unattended", "import os; print(os.environ['MINIMIND_COURSE_UNATTENDED'])", "1\n"),
    Cell("subprocess", CHILD, "from a child\n"),
    Cell("command", "!echo from a child", "from a child\n"),
    Cell("trailing", "3;"),
    Cell("clear", "from IPython.display import clear_output\nprint(1)\nclear_output()\nprint(2)", "2\n"),
    Cell(
        "json",
        "from IPython.display import JSON, display\ndisplay(JSON({'a': 1.50001}))",
        stored_outputs=(
            new_output(
                "display_data", {"application/json": {"a": 1.50002}, "text/plain": "<IPython.core.display.JSON object>"}
            ),
        ),
    ),
    Cell("last", "print('still running')", "still running\n"),
]
PASSES = {
    *(
        "same",
        "rounded",
        "loose",
        "ignored",
        "location",
        "raises",
        "picture",
        "unattended",
        "subprocess",
        "command",
        "trailing",
    ),
    *("clear", "json", "last"),
}
WIDGETS = """```{code-cell} ipython3
:name: 01-widgets
import ipywidgets
out = ipywidgets.Output()
with out:
    print("captured")
display(ipywidgets.VBox([ipywidgets.IntSlider(3), out]))
ipywidgets.interact(lambda n: print("n", n), n=4)
```
"""


def build_one(source: Path, text: str, path: Path) -> None:
    """Build a lesson's solved notebook alone: one kernel less than both."""
    source.write_text(text)
    path.parent.mkdir(exist_ok=True)
    write_notebook(execute(read_lesson(source).notebook("solved"), path.parent), path)


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    for name in ("MINIMIND_COURSE_UNATTENDED", "MPLBACKEND"):  # a user's shell has neither
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--color=no", "--nbval", "--nbval-current-env", *options, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@dataclass(frozen=True)
class Run:
    """What one pytest said: failure text by "notebook::cell", "" for a pass; and everything that it printed."""

    results: dict[str, str]
    printed: str
    exit_code: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One pytest with the plugin over a folder of small notebooks."""
    folder = tmp_path_factory.mktemp("tolerant")
    notebooks = folder / "notebooks"
    store(notebooks / "cells.ipynb", CELLS)
    store(
        notebooks / "slow.ipynb",
        [Cell("sleeps", "import time; time.sleep(60)"), Cell("after", "x = 1"), Cell("after-too", "x = 1")],
    )
    store(notebooks / "dead.ipynb", [Cell("dies", "import os; os._exit(3)"), Cell("after", "x = 1")])
    store(notebooks / "unbuilt.ipynb", [Cell("a", "x = 1")], lambda nb: nb.metadata.pop("course"))
    store(notebooks / "shorter.ipynb", [Cell("a", "x = 1"), Cell("b", "x = 1")], lambda nb: nb.cells.pop(0))
    store(notebooks / "swapped.ipynb", [Cell("a", "x = 1"), Cell("b", "x = 1")], lambda nb: nb.cells.reverse())
    build_one(folder / "01-widgets.md", WIDGETS, notebooks / "01-widgets.ipynb")

    report = folder / "report.xml"
    done = run_pytest(
        notebooks,
        *("-p", "course.nbval_tolerant", "--nbval-cell-timeout", "3", f"--junit-xml={report}"),
        "--continue-on-collection-errors",
    )
    results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('notebooks.')}::{case.get('name')}"
        bad = [child.text or "" for child in case if child.tag in ("failure", "error", "skipped")]
        results[name] = "".join(bad)
    return Run(results, done.stdout + done.stderr, done.returncode)


def result(run: Run, notebook: str, cell: str) -> str:
    found = [text for name, text in run.results.items() if notebook in name and name.endswith(f"::{cell}")]
    assert len(found) == 1, (notebook, cell, list(run.results))
    return found[0]


@pytest.mark.parametrize("cell", [cell.id for cell in CELLS if cell.id in PASSES])
def test_a_cell_that_does_what_is_stored_passes(run: Run, cell: str) -> None:
    assert result(run, "cells.ipynb", cell) == ""


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("moved", "stdout, line 1: 2.4045 became 2.3045 (moved by 0.1, 4.16 %; 0.00024 is allowed)"),
        ("learning-rate", "0.00052 became 0.0005 (moved by 2e-05, 3.85 %; 5.2e-08 is allowed)"),
        ("integer", "64 became 48: integers are compared exactly"),
        ("text", "stored: halved: False\n    now:    halved: True"),
        ("ignored-but-raises", "it raised ZeroDivisionError: division by zero"),
        ("never-run", "the stored cell was never run"),
        ("never-run-ignored", "the stored cell was never run"),
        ("raises-other", "error message, line 1: the text changed"),
        ("raises-nothing", "it is tagged raises-exception, but nothing was raised"),
        ("raises-untagged", "it raised ZeroDivisionError: division by zero"),
        ("skipped", "it is marked to be skipped"),
        ("skipped-by-comment", "it is marked to be skipped"),
        ("edited", "its code or tags were edited after the notebook was built"),
        ("silent", "stdout: 1 stored, 0 now"),
        ("talkative", "stdout: 0 stored, 1 now"),
        ("picture-gone", "image/png: 1 stored, 0 now"),
    ],
)
def test_a_cell_that_differs_from_what_is_stored_fails_and_says_how(run: Run, cell: str, sentence: str) -> None:
    assert sentence in result(run, "cells.ipynb", cell)


def test_every_cell_of_the_table_is_promised_something() -> None:
    assert {cell.id for cell in CELLS} >= PASSES
    assert len(CELLS) == len({cell.id for cell in CELLS})


def test_a_cell_over_the_time_limit_fails_and_so_does_every_cell_after_it(run: Run) -> None:
    assert "it ran longer than 3 s" in result(run, "slow.ipynb", "sleeps")
    assert "not run: the kernel ended in cell sleeps" in result(run, "slow.ipynb", "after")
    assert "not run: the kernel ended in cell sleeps" in result(run, "slow.ipynb", "after-too")


def test_a_dead_kernel_fails_at_once_and_so_does_every_cell_after_it(run: Run) -> None:
    assert "its kernel died" in result(run, "dead.ipynb", "dies")
    assert "not run: the kernel ended in cell dies" in result(run, "dead.ipynb", "after")


def test_a_notebook_with_other_cells_than_the_build_wrote_is_not_collected(run: Run) -> None:
    assert "unbuilt.ipynb was not written by the build" in run.printed
    assert "shorter.ipynb does not have the cells that were built: a changed" in run.printed
    assert "swapped.ipynb does not have the cells that were built: their order changed" in run.printed
    assert run.exit_code != 0


def test_a_built_notebook_with_widgets_passes(run: Run) -> None:
    assert result(run, "01-widgets", "01-widgets") == ""


def test_nothing_is_skipped_or_expected_to_fail(run: Run) -> None:
    assert "skipped" not in run.printed.splitlines()[-1]
    assert "xfailed" not in run.printed.splitlines()[-1]


PLAIN = """```{code-cell} ipython3
:name: 01-shapes
import ipywidgets
print("loss", 2.3045, (2, 48))
display(ipywidgets.IntSlider(3))
```

```{code-cell} ipython3
:name: 01-plot
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.show()
```

```{code-cell} ipython3
:name: 01-raises
:tags: [raises-exception]
1 / 0
```
"""


def test_plain_nbval_accepts_a_built_notebook(tmp_path: Path) -> None:
    build_one(tmp_path / "01-plain.md", PLAIN, tmp_path / "notebooks" / "01-plain.ipynb")
    done = run_pytest(tmp_path / "notebooks", "--nbval-cell-timeout", "60")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
