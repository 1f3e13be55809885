"""Say in seconds, without running anything, whether the notebooks are in step with their sources and clean.

In: the folder of lesson sources and the folder of notebooks. Out: one sentence per defect, none when all is well.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from course.build.answer_keys import answer_key_defects
from course.build.execute import ROOT, WIDGET_VIEW, errors_of, outputs_as_text
from course.build.files import NotebookError, read_notebook
from course.build.sources import (
    VARIANTS,
    Lesson,
    SourceError,
    code_hashes,
    lesson_paths,
    notebook_path,
    read_lesson,
    tags_of,
)

# A web page shows a notebook of this size at once; a plot at 100 dpi takes 20 to 60 kB.
NOTEBOOK_LIMIT_BYTES = 2_000_000
CELL_LIMIT_BYTES = 300_000

_ABSOLUTE = re.compile(
    r"(?<![\w.:/<~-])/(?:home|root|tmp|Users|mnt|media|var|opt|srv|private|workspace)/[^\s'\"<>]*"
    r"|(?<![\w])[A-Z]:\\[^\s'\"<>]*"
)
_OWN_FOLDERS = tuple({str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix} - {"/", "/usr"})
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_EXIT_CODE_ASSERTED = re.compile(r"^\s*assert\b.*\b_exit_code\b", re.MULTILINE)
_NBVAL_COMMENT = re.compile(r"\b(?:NBVAL|PYTEST_VALIDATE)_[A-Z_]+")
_PICTURES = ("image/png", "image/jpeg")


def check(lessons: Path, notebooks: Path) -> list[str]:
    """Return one sentence per defect of the notebooks, and of the questions that they ask.

    Args:
        lessons: Folder of the lesson sources; `recall` beside it holds the banks of recall items.
        notebooks: Folder that the build writes.
    """
    defects: list[str] = []
    expected: set[Path] = set()
    read: list[Lesson] = []
    for source in lesson_paths(lessons):
        expected |= {notebook_path(notebooks, source.stem, variant) for variant in VARIANTS}
        try:
            lesson = read_lesson(source)
        except SourceError as error:
            defects.append(str(error))
            continue
        read.append(lesson)
        defects += _source_defects(lesson)
        for variant in VARIANTS:
            path = notebook_path(notebooks, lesson.name, variant)
            defects += [f"{path}: {defect}" for defect in _notebook_defects(path, lesson.notebook(variant))]
    for path in sorted({*notebooks.glob("*.ipynb"), *notebooks.glob("solutions/*.ipynb")} - expected):
        defects.append(f"{path}: has no source in {lessons}; delete it or add {path.stem}.md.")
    return defects + answer_key_defects(read, lessons.parent / "recall", notebooks)


def _source_defects(lesson: Lesson) -> Iterator[str]:
    """Yield what nbval would let pass or could not compare, in the code itself."""
    for cell in lesson.cells:
        if cell.cell_type != "code":
            continue
        where = f"{lesson.path}, cell {cell.id}"
        if comment := _NBVAL_COMMENT.search(cell.source):
            yield f"{where}: {comment[0]} is a comment that nbval obeys; use the cell's tags."
        try:
            python = _as_python(cell.source)
            tree = ast.parse(python)
        except SyntaxError as error:
            if "raises-exception" not in tags_of(cell):
                yield f"{where}: does not parse as Python ({error.msg}, line {error.lineno})."
            continue
        if _ends_with_semicolon(python):
            yield f"{where}: ends with ';', which plain nbval ignores; assign the value or print what matters."
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        if "get_ipython().getoutput" in called:
            yield f"{where}: `= !command` hides a failing command; use subprocess.run(..., check=True)."
        if "get_ipython().system" in called and not _EXIT_CODE_ASSERTED.search(cell.source):
            yield f"{where}: `!command` hides a failing command; add `assert _exit_code == 0` below it."
        if _leaves_output_to_a_child(tree):
            yield f"{where}: what a child process prints may come a cell late; use capture_output=True and print it."


def _leaves_output_to_a_child(tree: ast.AST) -> bool:
    """Whether a child process inherits standard output, which ipykernel forwards in the background."""
    runs = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("subprocess.run", "subprocess.call", "subprocess.check_call", "os.system")
    ]
    return any(not {keyword.arg for keyword in run.keywords} & {"capture_output", "stdout"} for run in runs)


def _notebook_defects(path: Path, built: NotebookNode) -> Iterator[str]:
    """Yield what is wrong with one notebook.

    Args:
        path: The notebook file.
        built: What its source says it holds, without outputs.
    """
    if not path.exists():
        yield "is missing; run `python -m course.build build`."
        return
    try:
        notebook = read_notebook(path)
    except NotebookError as error:
        yield str(error)
        return

    yield from _out_of_step(notebook, built)
    course: dict[str, Any] = notebook.metadata.get("course", {})
    if course.get("code") != code_hashes(notebook.cells):
        yield "its code was edited after it was run (the stored hashes differ); edit the source and build again."
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernelspec is not python3."
    if "widgets" in notebook.metadata:
        yield "it stores widget state, which grows and never matches; build it again."
    if (size := path.stat().st_size) > NOTEBOOK_LIMIT_BYTES:
        yield f"it has {size:,} bytes; the limit is {NOTEBOOK_LIMIT_BYTES:,}."

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"it was not run once from top to bottom: its execution counts are {counts}."
    for cell in code:
        for defect in _cell_defects(cell):
            yield f"cell {cell.id}: {defect}"


def _out_of_step(notebook: NotebookNode, built: NotebookNode) -> Iterator[str]:
    present = {cell.get("id", ""): cell for cell in notebook.cells}
    wanted = {cell.id: cell for cell in built.cells}
    remedy = "run `python -m course.build build`."
    if missing := [cell_id for cell_id in wanted if cell_id not in present]:
        yield f"its source has cells that it lacks ({', '.join(missing)}); {remedy}"
    if extra := [cell_id for cell_id in present if cell_id not in wanted]:
        yield f"it has cells that its source lacks ({', '.join(extra)}); {remedy}"
    if not missing and not extra and list(present) != list(wanted):
        yield f"its cells are in another order than in the source; {remedy}"
    for cell_id in wanted.keys() & present.keys():
        old, new = present[cell_id], wanted[cell_id]
        if (old.cell_type, old.source, tags_of(old)) != (new.cell_type, new.source, tags_of(new)):
            yield f"cell {cell_id}: differs from the source; {remedy}"


def _cell_defects(cell: NotebookNode) -> Iterator[str]:
    errors = errors_of(cell)
    expected = "raises-exception" in tags_of(cell)
    if errors and not expected:
        yield f"stores an error ({errors[0].ename}) without the tag raises-exception."
    if expected and not errors:
        yield "is tagged raises-exception, but stores no error."

    parts = outputs_as_text(cell)
    kinds = {kind for kind, _ in parts}
    if not errors:
        shows = _shows_for_certain(cell.source)
        if "print" in shows and "stdout" not in kinds:
            yield "prints, but stores no printed output."
        elif "display" in shows and not parts:
            yield "displays something, but stores no output."
    if WIDGET_VIEW in kinds:
        yield "stores a widget view, whose id never matches; build it again."

    size = sum(len(str(content).encode()) for _, content in parts)
    if size > CELL_LIMIT_BYTES:
        yield f"stores {size:,} bytes of output; the limit is {CELL_LIMIT_BYTES:,}."
    for kind, content in parts:
        if kind in _PICTURES:
            continue
        text = str(content)
        if found := _machine_path(text):
            yield f"its {kind} shows a path of one machine: {found[:80]}."
        if address := _ADDRESS.search(text):
            yield f"its {kind} shows a memory address ({address[0]})."


def _machine_path(text: str) -> str:
    """Return the first absolute path in a text, "" when there is none."""
    if match := _ABSOLUTE.search(text):
        return match[0]
    return next((folder for folder in _OWN_FOLDERS if folder in text), "")


def _as_python(source: str) -> str:
    """Return IPython source as Python: `!` and `%` lines become calls."""
    return str(TransformerManager().transform_cell(source))


def _shows_for_certain(source: str) -> set[str]:
    """Return "print" and "display" for calls at the top level of a cell, which nothing can skip or redirect."""
    try:
        tree = ast.parse(_as_python(source))
    except SyntaxError:
        return set()
    shows = set()
    for statement in tree.body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            continue
        call = statement.value
        to_a_file = any(keyword.arg == "file" for keyword in call.keywords)
        if isinstance(call.func, ast.Name) and not to_a_file:
            shows.add(call.func.id)
    return shows & {"print", "display"}


def _ends_with_semicolon(python: str) -> bool:
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.DEDENT)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(python).readline)
        if token.type not in ignored and token.string
    ]
    return bool(tokens) and tokens[-1].string == ";"
