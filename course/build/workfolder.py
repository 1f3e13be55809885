"""Lay output-free copies of the lessons into a student's folder, never over a student's edits.

In: the built student notebooks. Out: the same notebooks without outputs in `work/`, and `work/.laid.json`, which
remembers a hash of every copy as it was laid. A copy whose text and code are still as laid is the course's and
may be replaced; any other is the student's. Running a copy does not make it the student's, editing a cell does.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nbformat import NotebookNode

from course.build.files import NotebookError, new_notebook, read_notebook, write_atomically, write_notebook

LAID = ".laid.json"

Action = Literal["laid", "updated", "unchanged", "kept"]


@dataclass(frozen=True)
class Copy:
    """What happened to one copy.

    Args:
        path: The student's file.
        action: "laid" (new), "updated" (untouched, and the course changed), "unchanged", or "kept" (edited).
        note: One sentence for the student; "" when there is nothing to say.
    """

    path: Path
    action: Action
    note: str = ""


def lay_copies(notebooks: Path, work: Path) -> list[Copy]:
    """Lay or update the student's copy of every lesson.

    An edited copy is left alone; when the course has changed since, the new version is laid beside it as
    `NN-slug.new.ipynb`. Deleting a copy and calling this again gives a fresh one.

    Args:
        notebooks: The built student notebooks.
        work: The student's folder; made when missing.

    Returns:
        One entry per file looked at, in order.

    Raises:
        ValueError: There are no notebooks, or `.laid.json` cannot be read.
    """
    sources = sorted(notebooks.glob("*.ipynb"))
    if not sources:
        raise ValueError(f"{notebooks} holds no notebooks; run `python -m course.build build` first.")
    work.mkdir(parents=True, exist_ok=True)
    laid = _read_laid(work / LAID)
    copies: list[Copy] = []
    for source in sources:
        notebook = without_outputs(read_notebook(source))
        copies += _lay_one(notebook, work, source.stem, laid)
        write_atomically(json.dumps(laid, indent=1, sort_keys=True) + "\n", work / LAID)
    return copies


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """Return a copy with text, code, ids and tags, but no outputs, counts and hashes of a run."""
    copy = new_notebook(notebook.cells, notebook.metadata)
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    copy.metadata.get("course", {}).pop("code", None)
    return copy


def content_hash(notebook: NotebookNode) -> str:
    """Return the sha256 of what a student edits: the cells' kinds, texts and attachments, in order."""
    content = [[cell.cell_type, cell.source, cell.get("attachments", {})] for cell in notebook.cells]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _lay_one(notebook: NotebookNode, work: Path, name: str, laid: dict[str, str]) -> Iterator[Copy]:
    """Lay one lesson under its own name, or under the first free `.new` name when the student edited the copy."""
    new = content_hash(notebook)
    for path in _candidates(work, name):
        present = _present_hash(path)
        before = laid.get(path.name)
        beside = path.stem != name
        if present is None:
            if beside and before == new:
                return  # this very version was laid here, and the student put it away
            write_notebook(notebook, path)
            laid[path.name] = new
            note = f"{path.name} is the new version; yours in {name}.ipynb is untouched." if beside else ""
            yield Copy(path, "laid", note)
            return
        if present == new:
            laid[path.name] = new
            yield Copy(path, "unchanged")
            return
        if present == before:
            write_notebook(notebook, path)
            laid[path.name] = new
            yield Copy(path, "updated", f"{path.name} was updated to the course's new version; run it again.")
            return
        yield Copy(path, "kept")
        if before == new:
            return  # edited, and the course has not changed since


def _candidates(work: Path, name: str) -> Iterator[Path]:
    yield work / f"{name}.ipynb"
    yield work / f"{name}.new.ipynb"
    number = 2
    while True:
        yield work / f"{name}.new{number}.ipynb"
        number += 1


def _present_hash(path: Path) -> str | None:
    """Return a file's content hash; None when there is no file, "" when it is no notebook (the student's, then)."""
    if not path.exists():
        return None
    try:
        return content_hash(read_notebook(path))
    except NotebookError:
        return ""


def _read_laid(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        laid = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); delete it. Your notebooks stay as they are, "
            "and new versions are laid beside those that differ."
        ) from error
    if not isinstance(laid, dict):
        raise ValueError(f"{path} holds {type(laid).__name__} where names and hashes belong; delete it.")
    return {str(name): str(digest) for name, digest in laid.items()}
