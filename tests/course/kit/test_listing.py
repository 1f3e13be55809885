import inspect
import re
import sys
import textwrap

import pytest

from course.kit import source
from course.kit.listing import listing


def test_a_function_is_shown_as_it_stands_with_name_and_place():
    shown = listing("course.kit.quizzes.quiz")
    from course.kit import quizzes

    lines, line = inspect.getsourcelines(quizzes.quiz)
    assert shown.startswith(f"**`course.kit.quizzes.quiz`** · `course/kit/quizzes.py:{line}`\n\n```python\n")
    assert "".join(lines).rstrip() in shown


def test_a_method_is_dedented():
    shown = listing("course.kit.quizzes.Quiz.check")
    assert "```python\ndef check(self)" in shown
    assert "**`course.kit.quizzes.Quiz.check`**" in shown


def test_a_class_a_reexported_name_and_another_package_are_found():
    assert "class Choice:" in listing("course.kit.Choice")
    assert "**`course.kit.quizzes.Choice`**" in listing("course.kit.Choice")
    assert re.search(r"`torch/nn/modules/linear\.py:\d+`", listing("torch.nn.Linear.forward"))


def test_a_wrapped_function_and_a_property_show_their_own_source(tmp_path, monkeypatch):
    write_module(
        tmp_path,
        monkeypatch,
        """
        import functools

        import torch

        def twice(function):
            @functools.wraps(function)
            def wrapper(x):
                return function(function(x))
            return wrapper

        @twice
        def step(x):
            return x + 1

        @torch.no_grad()
        def frozen(x):
            return x + 2

        class Box:
            @property
            def size(self):
                return 3
        """,
    )
    assert "return x + 1" in listing("shown_module.step")
    assert "return 3" in listing("shown_module.Box.size")
    # The wrapper of this one stands in torch's files.
    shown = listing("shown_module.frozen")
    assert "return x + 2" in shown and "`shown_module.py:" in shown


def write_module(tmp_path, monkeypatch, text):
    (tmp_path / "shown_module.py").write_text(textwrap.dedent(text).lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shown_module", raising=False)


LOOP = """
def train(data):
    total = 0
    for item in data:
        total += item
        total *= 2
    total += 1
    return total
"""


def test_anchors_narrow_to_the_lines_between_them(tmp_path, monkeypatch):
    write_module(tmp_path, monkeypatch, LOOP)
    shown = listing("shown_module.train", start="for item", stop="total *= 2")
    assert shown == (
        "**`shown_module.train`** (excerpt) · `shown_module.py:3`\n\n"
        "```python\nfor item in data:\n    total += item\n    total *= 2\n```"
    )
    assert listing("shown_module.train", stop="total = 0").endswith("def train(data):\n    total = 0\n```")


def test_stop_may_repeat_what_stands_before_start(tmp_path, monkeypatch):
    write_module(tmp_path, monkeypatch, LOOP)
    assert "total += 1\n```" in listing("shown_module.train", start="total *= 2", stop="total +=")


@pytest.mark.parametrize(
    ("symbol", "anchors", "sentence"),
    [
        ("shown_module.train", {"start": "while"}, "start='while' is on no line of the source of shown_module.train"),
        ("shown_module.train", {"start": "total +="}, "is on 2 lines of the source of shown_module.train"),
        ("shown_module.train", {"start": "return", "stop": "for"}, "stop='for' is on no line"),
        ("shown_module.tran", {}, "There is no 'tran' in shown_module"),
        ("no_such_package.step", {}, "No module 'no_such_package' can be imported"),
        ("shown_module", {}, "is a whole module"),
        ("math.pi", {}, "has no Python source to show: it is a float"),
        ("math.sqrt", {}, "has no Python source to show"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(tmp_path, monkeypatch, symbol, anchors, sentence):
    write_module(tmp_path, monkeypatch, LOOP)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        listing(symbol, **anchors)


def test_a_missing_dependency_of_the_module_is_not_taken_for_a_wrong_name(tmp_path, monkeypatch):
    write_module(tmp_path, monkeypatch, "import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        listing("shown_module.step")


def test_source_shows_no_absolute_path(capsys):
    source("course.kit.quizzes.Quiz")
    assert "/home" not in (shown := capsys.readouterr().out) and "`/" not in shown
