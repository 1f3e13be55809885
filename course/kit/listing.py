"""Shows the source of the very function that runs, from the installed package, found by name."""

import importlib
import inspect
import linecache
import sys
import textwrap
from pathlib import Path
from typing import Any

from course.kit.output import show
from course.kit.style import code_block


def source(symbol: str, start: str | None = None, stop: str | None = None) -> None:
    """Displays the live source of a function, class, method or property.

    The heading ends in `path/inside/package.py:LINE`, which is where the shown text begins; a comparison of
    two runs of a notebook may ignore that part, since an edit elsewhere in the file moves it.

    Args:
        symbol: Qualified name, such as "minimind.train.step.train_step" or "torch.nn.Linear.forward".
        start: Show from the line that contains this text. It must stand on exactly one line of the source.
        stop: Show up to and including the line that contains this text. It must stand on exactly one line
            from `start` on.

    Raises:
        ValueError: The symbol does not exist or has no Python source, or an anchor is not found or not
            unique.
    """
    show(listing(symbol, start, stop), plain=f"source of {symbol}")


def listing(symbol: str, start: str | None = None, stop: str | None = None) -> str:
    """The Markdown that `source` displays; arguments and errors are the same."""
    found = _resolve(symbol)
    linecache.checkcache()  # the file may have been edited since it was read
    try:
        lines, first = inspect.getsourcelines(found)
        file = inspect.getsourcefile(found)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"{symbol!r} has no Python source to show: it is a {type(found).__name__}; "
            "name a function, class, method or property written in Python."
        ) from error
    assert file is not None, symbol
    begin = 0 if start is None else _anchor(lines, start, symbol, "start", 0)
    end = len(lines) - 1 if stop is None else _anchor(lines, stop, symbol, "stop", begin)
    code = textwrap.dedent("".join(lines[begin : end + 1])).rstrip()
    name = f"{found.__module__}.{found.__qualname__}"
    excerpt = "" if len(lines) == end - begin + 1 else " (excerpt)"
    return f"**`{name}`**{excerpt} · `{_location(found, file)}:{first + begin}`\n\n{code_block(code, 'python')}"


def _resolve(symbol: str) -> Any:
    parts = symbol.split(".")
    for count in range(len(parts), 0, -1):
        module_name = ".".join(parts[:count])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # Only a missing part of the name itself may shorten it; a missing dependency of a module must be
            # heard.
            if error.name is not None and (module_name + ".").startswith(error.name + "."):
                continue
            raise
        for position in range(count, len(parts)):
            part = parts[position]
            if not hasattr(found, part):
                owner = ".".join(parts[:position])
                raise ValueError(f"There is no {part!r} in {owner}, asked for as {symbol!r}; check the name.")
            found = getattr(found, part)
        break
    else:
        raise ValueError(f"No module {parts[0]!r} can be imported, asked for as {symbol!r}; check the name.")
    if inspect.ismodule(found):
        raise ValueError(f"{symbol!r} is a whole module; name a function, class or method inside it.")
    if isinstance(found, property):
        found = found.fget
    return inspect.unwrap(found) if callable(found) else found


def _anchor(lines: list[str], anchor: str, symbol: str, which: str, after: int) -> int:
    matches = [index for index in range(after, len(lines)) if anchor in lines[index]]
    if len(matches) == 1:
        return matches[0]
    where = f"the source of {symbol}" + (" after the start" if after else "")
    if not matches:
        raise ValueError(f"{which}={anchor!r} is on no line of {where}; copy a piece of the line as it stands now.")
    raise ValueError(
        f"{which}={anchor!r} is on {len(matches)} lines of {where}; use a longer piece of the line that is meant."
    )


def _location(found: Any, file: str) -> str:
    """The file as seen from the folder that holds its package, so that it is the same on every machine."""
    package = sys.modules[found.__module__.partition(".")[0]]
    roots = [Path(path).resolve().parent for path in getattr(package, "__path__", [])]
    path = Path(file).resolve()
    for root in roots:
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name
