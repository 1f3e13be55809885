"""A pytest plugin that makes nbval faithful to the build and tolerant of the last digit.

    pytest -p course.nbval_tolerant --nbval --nbval-current-env --nbval-cell-timeout 300 notebooks

Each code cell is one test. The plugin runs it through nbclient, as the build does, and compares what it prints
with what the notebook stores: words and integers exactly, other numbers within `rtol` 1e-4 (or the cell's tag
`rtol=1e-2`) and one unit in the last printed place (numbers.py); addresses, clocks, folders and source line
numbers not at all (noise.py).

It refuses what plain nbval lets pass: a cell that was never run, a cell edited after the build,
`raises-exception` where nothing was raised. A cell over the time limit and a dead kernel fail at once, and so
does every cell after them.
"""

from course.nbval_tolerant.plugin import pytest_collect_file

__all__ = ["pytest_collect_file"]
