"""Promises of `python -m course.build build`: what a source becomes, and what is refused with a sentence."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
import zmq.asyncio
from jupyter_client.session import Session

from course.build.__main__ import main
from course.build.execute import ROOT, ExecutionError, build_lesson
from course.build.files import read_notebook, write_atomically
from course.build.kernel_client import WakefulChannel
from course.build.sources import VARIANTS, SourceError, read_lesson

SOURCE = """---
kernelspec: {name: python3, display_name: Python 3}
---

# A question

```{code-cell} ipython3
:name: 01-first
x = 2
print("x", x)
```

Text after the first cell.

```{code-cell} ipython3
:name: 01-stub
:tags: [student]
y = None
```

```{code-cell} ipython3
---
name: 01-solved
tags: [solution, rtol=1e-2]
---
y = x + 1
```

More text.

+++

Even more text.

```{code-cell} ipython3
:name: 01-last
print("y", y)
```
"""


def write(folder: Path, text: str, name: str = "01-question") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def cell(name: str, code: str, tags: str = "") -> str:
    return f"```{{code-cell}} ipython3\n:name: {name}\n" + (f":tags: [{tags}]\n" if tags else "") + f"{code}\n```\n\n"


def ids(path: Path) -> list[str]:
    return [each.id for each in read_lesson(path).cells]


def test_each_notebook_lacks_the_cells_of_the_other(tmp_path: Path) -> None:
    lesson = read_lesson(write(tmp_path, SOURCE))
    student = [each.id for each in lesson.notebook("student").cells if each.cell_type == "code"]
    solved = [each.id for each in lesson.notebook("solved").cells if each.cell_type == "code"]
    assert student == ["01-first", "01-stub", "01-last"]
    assert solved == ["01-first", "01-solved", "01-last"]


def test_code_that_would_give_an_answer_away_is_folded_and_no_other(tmp_path: Path) -> None:
    text = cell("01-quiz", "1", "hide-input") + cell("01-open", "2")
    for variant in VARIANTS:
        folded = [each.metadata.get("jupyter") for each in read_lesson(write(tmp_path, text)).notebook(variant).cells]
        assert folded == [{"source_hidden": True}, None]


def test_text_cells_can_be_kept_out_of_a_notebook_too(tmp_path: Path) -> None:
    text = cell("01-a", "1") + '+++ {"name": "01-why", "tags": ["solution"]}\n\nThe answer is 42.\n'
    lesson = read_lesson(write(tmp_path, text))
    assert [each.id for each in lesson.notebook("student").cells] == ["01-a"]
    assert [each.id for each in lesson.notebook("solved").cells] == ["01-a", "01-why"]


@pytest.mark.parametrize("at", ["Text after", "More text", "Even more"])
@pytest.mark.parametrize("inserted", [cell("01-new", "pass"), "A new text.\n\n+++\n\n"], ids=["code", "text"])
def test_an_insertion_renumbers_no_cell_but_text_that_follows_a_new_name(
    tmp_path: Path, at: str, inserted: str
) -> None:
    before = {each.source: each.id for each in read_lesson(write(tmp_path, SOURCE)).cells}
    after = {each.source: each.id for each in read_lesson(write(tmp_path, SOURCE.replace(at, inserted + at))).cells}
    assert len(set(after.values())) == len(before) + 1
    moved = [source for source in before if after[source] != before[source]]
    if "code-cell" in inserted:
        assert all(source.startswith(("Text after", "More text", "Even more")) for source in moved)
        assert all("01-new" in after[source] for source in moved)
    else:
        assert moved == []


def test_editing_a_text_below_its_first_line_changes_no_id(tmp_path: Path) -> None:
    assert ids(write(tmp_path, SOURCE.replace("# A question", "# A question\n\nAsked."))) == ids(
        write(tmp_path, SOURCE)
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("```{code-cell} ipython3\nprint(1)\n```\n", "line 1: the cell that starts with 'print(1)' has no name"),
        (cell("01-a", "1") + cell("01-a", "2"), "line 6: the name '01-a' is already used at line 1"),
        (cell("01 a", "1"), "the name '01 a' cannot be a cell id"),
        (cell("01-a", "1", "rtol=1e-2, nbval_skip"), "the tag 'nbval_skip' is unknown"),
        (cell("01-a", "1", "NBVAL-IGNORE-OUTPUT"), "the tag 'NBVAL-IGNORE-OUTPUT' is unknown"),
        (cell("01-a", "1", "nbval-skip"), "the tag 'nbval-skip' is unknown"),
        (cell("01-a", "1", "hide-output"), "the tag 'hide-output' is unknown"),
        (cell("01-a", "1", "rtol=loose"), "the tag 'rtol=loose' needs a number"),
        (cell("01-a", "1", "rtol=-0.1"), "the tag 'rtol=-0.1' needs a number"),
        (cell("01-a", "1", "atol=nan"), "the tag 'atol=nan' needs a number"),
        (cell("01-a", "1", "student, solution"), "would be in neither notebook"),
        (cell("01-a", "1", "student, student"), "line 3: ['student', 'student'] has non-unique elements"),
        (cell("01-a", "1").replace(":name", ":tag: [student]\n:name"), "unknown key 'tag'"),
        (
            cell("01-a", "1").replace("[", "").replace(":name: 01-a", ":name: 01-a\n:tags: student"),
            "line 3: 'student' is not of type 'array'",
        ),
        ("```{code-cell} ipython3\n---\nname: [a\n---\n1\n```\n", "does not parse. Code cell 0 at line 1"),
        ("---\nkernelspec: [\n---\n\n# A\n", "does not parse"),
        ("---\nkernelspec: {name: python3}\n---\n\n# A\n", "'display_name' is a required property"),
        (cell("01-a", "1").replace("```\n\n", "") + cell("01-b", "2"), "its closing ``` is missing"),
        (cell("01-a", "   "), "the cell is empty"),
        (cell("01-a", "1").replace("ipython3", "bash"), "should read '```{code-cell} ipython3'"),
        ("- a list\n\n  " + cell("01-a", "1").replace("\n", "\n  "), "{code-cell} stands inside a text cell"),
        ("```{note}\nRaw in JupyterLab.\n```\n", "{note} stands inside a text cell"),
        ("```{raw-cell}\n:name: 01-a\nx\n```\n", "a raw cell; lessons have text and code cells only"),
    ],
)
def test_a_source_that_is_not_well_formed_gets_a_sentence_with_file_and_place(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SourceError) as caught:
        read_lesson(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)


def test_a_source_that_is_missing_or_not_utf8_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is the lesson's name right"):
        read_lesson(tmp_path / "09-nothing.md")
    path = tmp_path / "01-latin.md"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(SourceError, match="byte 3 is not UTF-8"):
        read_lesson(path)


RICH = (
    cell("01-unattended", 'import os\nprint(os.environ["MINIMIND_COURSE_UNATTENDED"], os.environ["HF_HUB_OFFLINE"])')
    + cell("01-widget", "import ipywidgets\nslider = ipywidgets.IntSlider(3)\ndisplay(slider)\nslider")
    + cell("01-streams", 'import sys\nprint("a")\nprint("e", file=sys.stderr)\nprint("b")')
    + cell("01-raises", "1 / 0", "raises-exception")
    + cell("01-frames", "import json\njson.loads('{')", "raises-exception")
    + cell("01-here", "from pathlib import Path\nprint(Path.cwd().name)")
)


def test_an_executed_notebook_holds_what_every_run_prints_and_nothing_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINIMIND_COURSE_UNATTENDED", raising=False)
    source = write(tmp_path, RICH)
    student, solved = build_lesson(source, tmp_path / "notebooks")
    assert student == tmp_path / "notebooks" / "01-question.ipynb"
    assert solved == tmp_path / "notebooks" / "solutions" / "01-question.ipynb"
    notebook = read_notebook(student)
    cells = {each.id: each for each in notebook.cells}
    assert [each.execution_count for each in notebook.cells] == [1, 2, 3, 4, 5, 6]
    assert cells["01-unattended"].outputs[0].text == "1 1\n"
    assert cells["01-here"].outputs[0].text == "notebooks\n"
    assert [list(output.data) for output in cells["01-widget"].outputs] == [["text/plain"], ["text/plain"]]
    assert [(output.name, output.text) for output in cells["01-streams"].outputs] == [
        ("stdout", "a\nb\n"),
        ("stderr", "e\n"),
    ]
    assert cells["01-raises"].outputs[0].ename == "ZeroDivisionError"
    frames = "".join(cells["01-frames"].outputs[0].traceback)
    assert "json" in frames
    assert not any(folder in frames for folder in (str(ROOT), str(Path.home()), sys.prefix))
    assert set(notebook.metadata) == {"kernelspec", "language_info", "course"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
    assert all(set(each.metadata) <= {"tags"} for each in notebook.cells)
    assert all(len(line.split("  ")[0]) == 64 for line in notebook.metadata.course.code)

    first = student.read_bytes()
    build_lesson(source, tmp_path / "notebooks")
    assert student.read_bytes() == first


@pytest.mark.parametrize(
    ("code", "tags", "sentence"),
    [
        ("1 / 0", "", "(student), cell 01-a: ZeroDivisionError: division by zero"),
        ("pass", "raises-exception", "(student), cell 01-a: tagged raises-exception, but nothing was raised."),
        ("%run broken.py", "", "(student), cell 01-a: ValueError: broken"),
        ("import time; time.sleep(30)", "", "(student), cell 01-a: it ran longer than 1 s."),
    ],
)
def test_a_cell_that_does_not_run_as_tagged_stops_the_build_and_leaves_the_old_notebook(
    tmp_path: Path, code: str, tags: str, sentence: str
) -> None:
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    (notebooks / "broken.py").write_text("raise ValueError('broken')")
    (notebooks / "01-question.ipynb").write_text("old")
    with pytest.raises(ExecutionError) as caught:
        build_lesson(write(tmp_path, cell("01-a", code, tags)), notebooks, cell_timeout_s=1)
    assert sentence in str(caught.value)
    assert (notebooks / "01-question.ipynb").read_text() == "old"


def test_a_reply_whose_wake_up_was_lost_is_found_long_before_the_time_limit() -> None:
    """A send on the waiting socket, past asyncio, uses up the reply's wake-up: what nbclient's Output widgets do."""

    async def wait_for_the_reply() -> tuple[dict[str, Any], float]:
        kernel, client = (
            zmq.asyncio.Context.instance().socket(zmq.DEALER),
            zmq.asyncio.Context.instance().socket(zmq.DEALER),
        )
        client.connect(f"tcp://127.0.0.1:{kernel.bind_to_random_port('tcp://127.0.0.1')}")
        session = Session(key=b"")
        channel = WakefulChannel(client, session)
        loop, started = asyncio.get_running_loop(), time.monotonic()
        waiting = asyncio.ensure_future(channel.get_msg(timeout=30))
        await asyncio.sleep(0.1)
        loop.remove_reader(client.FD)  # the lost wake-up, on purpose: asyncio hears nothing of this socket any more
        session.send(zmq.Socket.shadow(kernel.underlying), "execute_reply", {"status": "ok"})
        message = await waiting
        kernel.close(linger=0)
        client.close(linger=0)
        return message, time.monotonic() - started

    message, waited_s = asyncio.run(wait_for_the_reply())
    assert message["content"] == {"status": "ok"}
    assert waited_s < 10


def test_a_wait_for_a_message_that_never_comes_ends_in_time() -> None:
    async def wait_for_nothing() -> None:
        socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        socket.bind_to_random_port("tcp://127.0.0.1")
        try:
            await WakefulChannel(socket, Session(key=b"")).get_msg(timeout=0.7)
        finally:
            socket.close(linger=0)

    started = time.monotonic()
    with pytest.raises(Empty):
        asyncio.run(wait_for_nothing())
    assert 0.6 < time.monotonic() - started < 10


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically("old", path)

    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_atomically("new", path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_builds_the_named_lessons_and_says_which_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons = tmp_path / "course" / "lessons"
    write(lessons, cell("01-a", "print(1)"), "01-good")
    write(lessons, cell("02-a", "1", "unknown"), "02-bad")
    write(lessons, "no lesson", "README")
    assert main(["build", "01-good"], tmp_path) == 0
    assert json.loads((tmp_path / "notebooks" / "01-good.ipynb").read_text())["cells"][0]["outputs"]
    assert main(["build", "02-bad"], tmp_path) == 1
    assert "the tag 'unknown' is unknown" in capsys.readouterr().err
    assert not (tmp_path / "notebooks" / "02-bad.ipynb").exists()
    assert main(["build", "03-none"], tmp_path) == 1
    assert "is the lesson's name right" in capsys.readouterr().err
