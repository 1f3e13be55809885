"""Where something may be written."""

import os
from pathlib import Path


def require_folder(field: str, path: str) -> None:
    """Makes sure, before a run begins, that a folder can be made or written at `path`.

    Raises:
        ValueError: it is empty or a file, or may not be written; the message names the field.
    """
    if not path.strip() or "\0" in path:
        raise ValueError(f"{field}={path!r} names no folder.")
    here = Path(path).absolute()
    while not here.exists() and here != here.parent:
        here = here.parent
    if not here.is_dir():
        raise ValueError(f"{field}={path!r}: {here.name} is a file; name a folder.")
    if not os.access(here, os.W_OK):
        raise ValueError(f"{field}={path!r}: nothing may be written in {here.name or here}; name another folder.")
