"""Read a lesson source into its student and its solved notebook.

In: `course/lessons/NN-slug.md`, MyST Markdown as jupytext reads it. Out: notebooks that have not been run yet.

A code cell names itself, and its name becomes its cell id, so that inserting a cell renumbers nothing:

    ```{code-cell} ipython3
    :name: 07-shift-loss
    :tags: [rtol=1e-2]
    loss
    ```

Tags: `student` and `solution` keep a cell out of the other notebook; `rtol=`, `atol=` set how closely printed
numbers are compared; `hide-input` folds the code away in JupyterLab, for a question whose code would give the answer
away; `nbval-ignore-output` runs a cell without comparing what it prints; `raises-exception`
marks a cell that must raise. A text cell may name itself too (`+++ {"name": "07-question"}`); otherwise its id
comes from the named cell before it.
"""

import copy
import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import yaml  # type: ignore[import-untyped]
from jupytext.myst import (  # type: ignore[import-untyped]
    MystMetadataParsingError,
    myst_to_notebook,
)
from nbformat import NotebookNode, ValidationError

from course.build.files import new_notebook

Variant = Literal["student", "solved"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

PLAIN_TAGS = ("student", "solution", "hide-input", "nbval-ignore-output", "raises-exception")
TOLERANCE_TAGS = ("rtol=", "atol=")

# The other variant's tag keeps a cell out of a notebook.
_LEFT_OUT: dict[Variant, str] = {"student": "solution", "solved": "student"}

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")  # 64 characters are the limit of nbformat; text cells add a suffix
_CODE_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})\s*\{code-cell\}\s*(\S*)\s*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*(?:`{3,}|~{3,}|:{3,})\s*(\{[\w:-]+\})", re.MULTILINE)


class SourceError(ValueError):
    """A lesson source that cannot become a notebook; the message says where, why, and what to change."""


@dataclass(frozen=True)
class Lesson:
    """One lesson source, read and found well-formed.

    Args:
        path: The source file.
        cells: Every cell in order, ids set, tags in `cell.metadata["tags"]`, nothing executed.
    """

    path: Path
    cells: tuple[NotebookNode, ...]

    @property
    def name(self) -> str:
        """The lesson's name, such as `07-pretraining-entry`; its notebooks carry the same name."""
        return self.path.stem

    def notebook(self, variant: Variant) -> NotebookNode:
        """Return the student's or the solved notebook, not executed.

        Args:
            variant: "student" drops the cells tagged `solution`, "solved" those tagged `student`.
        """
        kept = [copy.deepcopy(cell) for cell in self.cells if _LEFT_OUT[variant] not in tags_of(cell)]
        for cell in kept:
            if "hide-input" in tags_of(cell):
                cell.metadata["jupyter"] = {"source_hidden": True}
        metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
            "course": {"source": self.path.name, "variant": variant, "code": code_hashes(kept)},
        }
        return new_notebook(kept, metadata)


def read_lesson(path: Path) -> Lesson:
    """Read one lesson source.

    Args:
        path: A MyST Markdown file.

    Raises:
        SourceError: The file does not parse, a code cell has no name or a name twice, a tag or a key is unknown,
            or a text cell holds what JupyterLab would show raw.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror}); is the lesson's name right?") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8.") from error
    try:
        notebook = myst_to_notebook(text, add_source_map=True)
    except (MystMetadataParsingError, yaml.YAMLError) as error:
        raise SourceError(f"{path}: does not parse. {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise SourceError(f"{path}, {_place(error, text)}: {error.message}.") from error

    lines = text.splitlines()
    cells: list[NotebookNode] = []
    seen: dict[str, int] = {}
    anchor = path.stem[:48]
    for cell, line in zip(notebook.cells, notebook.metadata["source_map"], strict=True):
        is_text = cell.cell_type == "markdown"
        line_number = line + 1 if is_text else line
        where = f"{path}, line {line_number}"
        name = _checked_name(cell, where)
        _check_tags(cell, where)
        if is_text:
            _check_text(cell, where)
            cell_id = name or _text_id(anchor, cell, seen)
        else:
            _check_code(cell, lines[line_number - 1], where)
            cell_id = anchor = name
        if cell_id in seen:
            raise SourceError(
                f"{where}: the name {cell_id!r} is already used at line {seen[cell_id]}; names are unique."
            )
        seen[cell_id] = line_number
        cell["id"] = cell_id
        cell.metadata.pop("name", None)
        cells.append(cell)
    return Lesson(path, tuple(cells))


def lesson_paths(lessons: Path) -> list[Path]:
    """Return the lesson sources of a folder, in the order of their numbers.

    Files without a leading number (a README) are not lessons.
    """
    return sorted(path for path in lessons.glob("*.md") if path.name[:1].isdigit())


def notebook_path(notebooks: Path, name: str, variant: Variant) -> Path:
    """Return where a lesson's notebook lies: beside the others, or under `solutions/` when solved."""
    folder = notebooks if variant == "student" else notebooks / "solutions"
    return folder / f"{name}.ipynb"


def tags_of(cell: NotebookNode) -> list[str]:
    """Return a cell's tags; an empty list when it has none."""
    return list(cell.metadata.get("tags", []))


def code_hash(cell: NotebookNode) -> str:
    """Return the sha256 of a code cell's source and tags: what its stored output was made from."""
    content = json.dumps([cell.source, sorted(tags_of(cell))], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def code_hashes(cells: Iterable[NotebookNode]) -> list[str]:
    """Return one line `<sha256>  <cell id>` per code cell, in order."""
    return [f"{code_hash(cell)}  {cell.id}" for cell in cells if cell.cell_type == "code"]


def stored_hashes(notebook: NotebookNode) -> dict[str, str]:
    """Return cell id -> sha256 as the build stored them, in order; empty when the build did not write it."""
    course: dict[str, Any] = notebook.metadata.get("course", {})
    pairs = [line.split("  ", 1) for line in course.get("code", [])]
    return {cell_id: digest for digest, cell_id in pairs}


def _place(error: ValidationError, text: str) -> str:
    """Return the line of the key that nbformat refused, as far as it can be found."""
    key = str(error.absolute_path[-1]) if error.absolute_path else ""
    for number, line in enumerate(text.splitlines(), start=1):
        if key and line.lstrip(" :").startswith(f"{key}:"):
            value = line.lstrip(" :").removeprefix(f"{key}:")
            if yaml.safe_load(value) == error.instance:
                return f"line {number}"
    return ".".join(str(step) for step in error.absolute_path) or "front matter"


def _checked_name(cell: NotebookNode, where: str) -> str:
    """Return the cell's name, or "" for a text cell without one."""
    unknown = sorted(set(cell.metadata) - {"name", "tags"})
    if unknown:
        raise SourceError(f"{where}: the cell has the unknown key {unknown[0]!r}; known are name and tags.")
    name = str(cell.metadata.get("name", ""))
    if not name:
        if cell.cell_type == "markdown":
            return ""
        first = next(iter(cell.source.splitlines()), "")
        raise SourceError(f"{where}: the cell that starts with {first!r} has no name; add a line ':name: ...'.")
    if not _NAME.fullmatch(name):
        raise SourceError(f"{where}: the name {name!r} cannot be a cell id; use up to 48 letters, digits, '-' and '_'.")
    return name


def _check_tags(cell: NotebookNode, where: str) -> None:
    tags = tags_of(cell)
    for tag in tags:
        if tag in PLAIN_TAGS:
            continue
        if tag.startswith(TOLERANCE_TAGS):
            _check_tolerance(tag, where)
            continue
        known = ", ".join((*PLAIN_TAGS, *(f"{prefix}..." for prefix in TOLERANCE_TAGS)))
        raise SourceError(f"{where}: the tag {tag!r} is unknown; known are {known}.")
    if "student" in tags and "solution" in tags:
        raise SourceError(f"{where}: tagged student and solution, the cell would be in neither notebook.")


def _check_tolerance(tag: str, where: str) -> None:
    try:
        value = float(tag[5:])
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise SourceError(f"{where}: the tag {tag!r} needs a number from 0 to below 1, such as 'rtol=1e-2'.")


def _check_text(cell: NotebookNode, where: str) -> None:
    """Refuse what plain Markdown does not know: JupyterLab shows directives raw."""
    if directive := _DIRECTIVE.search(cell.source):
        raise SourceError(
            f"{where}: {directive[1]} stands inside a text cell, where JupyterLab shows it raw; "
            "a code cell starts at the left margin, everything else is plain Markdown."
        )


def _check_code(cell: NotebookNode, fence: str, where: str) -> None:
    if cell.cell_type != "code":
        raise SourceError(f"{where}: a {cell.cell_type} cell; lessons have text and code cells only.")
    match = _CODE_FENCE.match(fence)
    if match is None or match[1] not in ("", "python", "ipython3"):
        raise SourceError(f"{where}: {fence.strip()!r} should read '```{{code-cell}} ipython3'.")
    if not cell.source.strip():
        raise SourceError(f"{where}: the cell is empty; write its code or delete it.")
    if _CODE_FENCE.search(cell.source):
        raise SourceError(f"{where}: the cell swallows the next one; its closing ``` is missing.")


def _text_id(anchor: str, cell: NotebookNode, taken: dict[str, int]) -> str:
    """Return an id from the named cell before and the text's first line, so that no other text cell moves it."""
    first_line = cell.source.splitlines()[0]
    cell_id = stem = f"{anchor}-t{hashlib.sha256(first_line.encode()).hexdigest()[:6]}"
    repeat = 2
    while cell_id in taken:
        cell_id = f"{stem}-{repeat}"
        repeat += 1
    return cell_id
