"""Promises of `python -m course.build check`: each defect is found, by a sentence that names the place."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output

from course.build import answer_keys
from course.build import check as check_module
from course.build.__main__ import main
from course.build.check import check
from course.build.execute import ROOT
from course.build.files import read_notebook, write_notebook
from course.build.sources import VARIANTS, code_hashes, notebook_path, read_lesson

SOURCE = """# A question

```{code-cell} ipython3
:name: 01-print
print("loss", 2.3045)
```

Some text.

```{code-cell} ipython3
:name: 01-stub
:tags: [student]
y = None
```

```{code-cell} ipython3
:name: 01-solved
:tags: [solution]
y = 3
```

```{code-cell} ipython3
:name: 01-raises
:tags: [raises-exception]
1 / 0
```

```{code-cell} ipython3
:name: 01-show
display(3)
```
"""


def stream(text: str) -> NotebookNode:
    return new_output("stream", name="stdout", text=text)


def stored_error() -> NotebookNode:
    return new_output("error", ename="ZeroDivisionError", evalue="division by zero", traceback=["division by zero"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one lesson, its notebooks as the build writes them (outputs filled in by hand: no kernel)."""
    source = tmp_path / "course" / "lessons" / "01-question.md"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    lesson = read_lesson(source)
    outputs = {
        "01-print": [stream("loss 2.3045\n")],
        "01-raises": [stored_error()],
        "01-show": [new_output("display_data", {"text/plain": "3"})],
    }
    for variant in VARIANTS:
        notebook = lesson.notebook(variant)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, start=1):
            cell.execution_count = count
            cell.outputs = outputs.get(cell.id, [])
        path = notebook_path(tmp_path / "notebooks", lesson.name, variant)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_notebook(notebook, path)
    return tmp_path


def defects(root: Path) -> list[str]:
    return check(root / "course" / "lessons", root / "notebooks")


def by_id(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def test_a_built_notebook_has_no_defect(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert defects(root) == []
    assert main(["check"], root) == 0
    assert "1 lessons: notebooks in step" in capsys.readouterr().out


def never_run(notebook: NotebookNode) -> None:
    by_id(
        notebook, "01-stub" if any(cell.id == "01-stub" for cell in notebook.cells) else "01-solved"
    ).execution_count = None


def edited_cell(notebook: NotebookNode) -> None:
    by_id(notebook, "01-print").source = 'print("loss", 2.4)'


def edited_cell_rehashed(notebook: NotebookNode) -> None:
    edited_cell(notebook)
    notebook.metadata.course.code = code_hashes(notebook.cells)


def edited_text(notebook: NotebookNode) -> None:
    notebook.cells[0].source = "# Another question"


def edited_tag(notebook: NotebookNode) -> None:
    by_id(notebook, "01-print").metadata["tags"] = ["rtol=0.5"]


def no_hashes(notebook: NotebookNode) -> None:
    del notebook.metadata["course"]


def removed_cell(notebook: NotebookNode) -> None:
    notebook.cells.pop(0)


def added_cell(notebook: NotebookNode) -> None:
    extra = NotebookNode(notebook.cells[0] | {"id": "01-extra"})
    notebook.cells.append(extra)


def swapped_cells(notebook: NotebookNode) -> None:
    notebook.cells.append(notebook.cells.pop(0))


def lost_print(notebook: NotebookNode) -> None:
    by_id(notebook, "01-print").outputs = []


def lost_display(notebook: NotebookNode) -> None:
    by_id(notebook, "01-show").outputs = []


def untagged_error(notebook: NotebookNode) -> None:
    by_id(notebook, "01-show").outputs = [stored_error()]


def lost_error(notebook: NotebookNode) -> None:
    by_id(notebook, "01-raises").outputs = []


def prints(text: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        by_id(notebook, "01-print").outputs = [stream(text)]

    return change


def machine_path_in_a_traceback(notebook: NotebookNode) -> None:
    by_id(notebook, "01-raises").outputs[0].traceback = ["File /home/me/minimind/model.py:3"]


def widget_view(notebook: NotebookNode) -> None:
    by_id(notebook, "01-show").outputs[0].data["application/vnd.jupyter.widget-view+json"] = {"model_id": "a"}


def widget_state(notebook: NotebookNode) -> None:
    notebook.metadata["widgets"] = {}


def other_kernel(notebook: NotebookNode) -> None:
    notebook.metadata.kernelspec["name"] = "my-env"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (never_run, "not run once from top to bottom: its execution counts are [1, None, 3, 4]"),
        (edited_cell, "its code was edited after it was run"),
        (edited_cell_rehashed, "cell 01-print: differs from the source"),
        (edited_text, "differs from the source"),
        (edited_tag, "cell 01-print: differs from the source"),
        (no_hashes, "its code was edited after it was run"),
        (removed_cell, "its source has cells that it lacks (01-question-t"),
        (added_cell, "it has cells that its source lacks (01-extra)"),
        (swapped_cells, "its cells are in another order"),
        (lost_print, "cell 01-print: prints, but stores no printed output"),
        (lost_display, "cell 01-show: displays something, but stores no output"),
        (untagged_error, "cell 01-show: stores an error (ZeroDivisionError) without the tag"),
        (lost_error, "cell 01-raises: is tagged raises-exception, but stores no error"),
        (
            prints("saved to /home/me/out/weights\n"),
            "cell 01-print: its stdout shows a path of one machine: /home/me/out",
        ),
        (prints("C:\\Users\\me\n"), "shows a path of one machine: C:\\Users\\me"),
        (prints(f"{ROOT}/labs\n"), f"shows a path of one machine: {ROOT}"),
        (prints("<function f at 0x7fba88bc2610>\n"), "shows a memory address (at 0x7fba88bc2610)"),
        (prints("x" * 300_001), "stores 300,001 bytes of output; the limit is 300,000"),
        (machine_path_in_a_traceback, "cell 01-raises: its traceback shows a path of one machine"),
        (widget_view, "cell 01-show: stores a widget view"),
        (widget_state, "stores widget state"),
        (other_kernel, "its kernelspec is not python3"),
    ],
)
def test_a_defect_of_either_notebook_is_found(
    root: Path, variant: str, change: Callable[[NotebookNode], None], sentence: str
) -> None:
    path = notebook_path(root / "notebooks", "01-question", "student" if variant == "student" else "solved")
    notebook = read_notebook(path)
    change(notebook)
    write_notebook(notebook, path)
    found = defects(root)
    assert any(defect.startswith(f"{path}: ") and sentence in defect for defect in found), found


@pytest.mark.parametrize("text", ["see https://example.org/home/page\n", "ratio 3/4, out/weights, </var>\n", "~/x\n"])
def test_text_that_only_looks_like_a_path_is_no_defect(root: Path, text: str) -> None:
    path = root / "notebooks" / "01-question.ipynb"
    notebook = read_notebook(path)
    prints(text)(notebook)
    write_notebook(notebook, path)
    assert defects(root) == []


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("!ls", "`!command` hides a failing command"),
        ("files = !ls", "`= !command` hides a failing command"),
        ("import subprocess\ny = subprocess.run(['ls'], check=True)", "may come a cell late"),
        ("import os\ny = os.system('ls')", "may come a cell late"),
        ("y = 3;", "ends with ';'"),
        ("y = 3;  # quiet", "ends with ';'"),
        ("y = 3\n# NBVAL_IGNORE_OUTPUT", "NBVAL_IGNORE_OUTPUT is a comment that nbval obeys"),
        ("y = = 3", "does not parse as Python"),
    ],
)
def test_code_that_nbval_would_let_pass_is_found(root: Path, code: str, sentence: str) -> None:
    (root / "course" / "lessons" / "01-question.md").write_text(SOURCE.replace("y = 3", code))
    assert any("cell 01-solved: " in defect and sentence in defect for defect in defects(root))


@pytest.mark.parametrize(
    "code", ["!ls\nassert _exit_code == 0", "y = 3 != 4", 'y = "a;"', "%time y = 3", "y = 3; z = 4"]
)
def test_code_that_is_honest_passes(root: Path, code: str) -> None:
    (root / "course" / "lessons" / "01-question.md").write_text(SOURCE.replace("y = 3", code))
    found = [defect for defect in defects(root) if "01-question.md" in defect]
    assert found == []


def test_a_missing_notebook_a_notebook_without_source_and_a_broken_one_are_found(root: Path) -> None:
    notebooks = root / "notebooks"
    (notebooks / "solutions" / "01-question.ipynb").unlink()
    (notebooks / "solutions" / "02-stray.ipynb").write_text("{}")
    (notebooks / "01-question.ipynb").write_text('{"cells": [')
    found = defects(root)
    assert len(found) == 3
    assert "is not a notebook" in found[0]
    assert "solutions/01-question.ipynb: is missing" in found[1]
    assert "02-stray.ipynb: has no source" in found[2]


def test_a_notebook_over_the_size_limit_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "NOTEBOOK_LIMIT_BYTES", 1000)
    assert any("the limit is 1,000" in defect for defect in defects(root))


def test_the_command_fails_with_one_line_per_defect(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "notebooks" / "01-question.ipynb").unlink()
    (root / "course" / "lessons" / "02-bad.md").write_text("```{code-cell} ipython3\n1\n```\n")
    assert main(["check"], root) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2


# --- where right answers stand ---------------------------------------------------------------------


def ask(keys: str, right: int = 0, choices: int = 3, lesson: str = "01", call: str = "quiz({}, '?', [{}])") -> str:
    """The code of questions with these one-letter names, all with the right answer in one place."""
    options = ", ".join(f"Choice('{n}', right=True)" if n == right else f"Choice('{n}')" for n in range(choices))
    return "\n".join(call.format(f"'{lesson}-{key}'", options) for key in keys) + "\n"


def questions(root: Path, *cells: str, recall: str = "") -> list[str]:
    """Put these cells into the lesson and this bank beside it; return the defects of the questions alone."""
    text = "".join(f"\n```{{code-cell}} ipython3\n:name: 01-ask-{i}\n{cell}```\n" for i, cell in enumerate(cells))
    (root / "course" / "lessons" / "01-question.md").write_text(SOURCE + text)
    if recall:
        (root / "course" / "recall").mkdir(exist_ok=True)
        (root / "course" / "recall" / "lesson01.py").write_text(f"ITEMS = (\n{recall})\n")
    return [defect for defect in defects(root) if not defect.startswith(str(root / "notebooks"))]


ITEM = "    RecallItem(key={}, question='?', choices=({})),"


def test_right_answers_in_one_place_are_found_with_their_counts_and_the_items_to_move(root: Path) -> None:
    (defect,) = questions(root, ask("abcd", 0), recall=ask("e", 0, call=ITEM) + ask("f", 1, call=ITEM))
    assert "The right answers of 6 quiz and recall items with 3 choices stand at A 5, B 1, C 0." in defect
    moved = re.findall(r"move the right answer of '(01-.)' \((.*?)\) to (.)", defect)
    assert [(key, place) for key, _, place in moved] == [("01-e", "C"), ("01-d", "B")]
    assert moved[0][1].endswith("course/recall/lesson01.py") and moved[1][1].endswith("01-question.md, cell 01-ask-0")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([ask("abc", 0), ask("de", 1), ask("f", 2)], False),  # half, and each place used
        ([ask("abcd", 0), ask("e", 1), ask("f", 2)], True),  # more than half
        ([ask("abc", 0), ask("def", 1)], True),  # C is never right
        ([ask("abcde", 0)], False),  # too few to say
        ([ask("abc", 0), ask("def", 0, choices=4)], False),  # counted apart
        ([ask("abcdef", 0, choices=2)], True),
        ([ask("abc", 0, choices=2), ask("def", 1, choices=2)], False),
    ],
)
def test_from_six_items_on_no_place_holds_more_than_half_and_each_holds_one(
    root: Path, cells: list[str], found: bool
) -> None:
    assert bool(questions(root, *cells)) is found


def outcome(key: str, sentence: str) -> NotebookNode:
    data = {"text/plain": f"result of prediction {key}", "text/markdown": sentence}
    return new_output("display_data", data)


def test_predictions_count_by_what_the_run_gave_and_not_by_what_is_stated(root: Path) -> None:
    path = root / "notebooks" / "01-question.ipynb"
    notebook = read_notebook(path)
    other = "The unattended run predicted **B** (x); the run gave **A** (y): **different**."
    same = "The unattended run predicted **A** (y); the run gave the same: **right**."
    by_id(notebook, "01-show").outputs += [outcome(f"01-{key}", other if key < "d" else same) for key in "abcdef"]
    write_notebook(notebook, path)
    predict = "predict({}, '?', ['x', 'y'], stated='x')  # {}"
    (defect,) = questions(root, ask("abcdef", call=predict))
    assert "6 predictions with 2 choices stand at A 6, B 0" in defect
    assert questions(root, ask("ghijkl", call=predict)) == []  # nothing is known of these


def test_the_predictions_of_the_course_are_known(root: Path) -> None:
    found = answer_keys._outcomes(ROOT / "notebooks" / "07-pretraining-entry.ipynb")
    assert {"07-first-loss": 2, "07-shapes": 2, "07-resume": 1}.items() <= found.items()


@pytest.mark.parametrize(
    ("cells", "recall", "sentence"),
    [
        ([ask("a"), ask("a", 1)], "", "The key '01-a' names 2 items"),
        ([ask("a") + ask("a")], "", "The key '01-a' names 2 items"),
        ([ask("a"), "predict_number('01-a', '?')\n"], "", "The key '01-a' names 2 items"),
        ([ask("a"), "exercise('01-a')\n", "exercise('01-a').check(f)\n"], "", "names 2 items"),
        ([ask("a")], ask("a", call=ITEM), "The key '01-a' names 2 items"),
        ([ask("a", lesson="02")], "", "the key '02-a' must start with '01-'"),
        (["exercise('1-a')\n"], "", "the key '1-a' must start with '01-'"),
        (["quiz(name, '?', [Choice('x', right=True)])\n"], "", "the key of quiz(...) is not written out"),
        (["quiz('01-a', '?', choices)\n"], "", "the right answer of '01-a' cannot be read"),
        (["quiz('01-a', '?', [Choice('x'), Choice('y')])\n"], "", "the right answer of '01-a' cannot be read"),
    ],
)
def test_a_slip_in_the_keys_of_questions_is_found(root: Path, cells: list[str], recall: str, sentence: str) -> None:
    assert any(sentence in defect for defect in questions(root, *cells, recall=recall))


def test_an_exercise_may_be_shown_and_checked_and_a_magic_stand_beside_a_question(root: Path) -> None:
    cells = ["exercise('01-e')\n", "exercise('01-e').check(f)\n", "%time 1\n" + ask("a")]
    assert questions(root, *cells) == []
    assert questions(root, *cells, "%time 1\n" + ask("a")) != []
