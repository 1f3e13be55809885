"""Notebook files: read with a sentence for what is none, written in one stroke."""

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode


class NotebookError(ValueError):
    """A file that is not a notebook; the message names it and says why."""


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook of nbformat 4 and validate it.

    Raises:
        NotebookError: The file cannot be read, is not JSON, or is not a notebook.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("nbformat") != 4:
            raise NotebookError(f"{path} is not a notebook: it is not a JSON object with nbformat 4.")
        notebook: NotebookNode = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
    except OSError as error:
        raise NotebookError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise NotebookError(f"{path} is not a notebook: {error}.") from error
    except nbformat.ValidationError as error:
        raise NotebookError(f"{path} is not a notebook: {str(error).splitlines()[0]}.") from error
    return notebook


def new_notebook(cells: Iterable[NotebookNode], metadata: dict[str, Any]) -> NotebookNode:
    """Return a notebook of copies of these cells."""
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}
    notebook: NotebookNode = nbformat.from_dict(content)
    return notebook


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Validate a notebook and write it in one stroke: a reader sees the old file or the new one, never half.

    Args:
        notebook: A notebook of nbformat 4.
        path: Replaced when it exists.
    """
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook, version=4)
    write_atomically(text + "\n", path)


def write_atomically(text: str, path: Path) -> None:
    """Write UTF-8 text beside `path` and rename it into place."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner may read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
