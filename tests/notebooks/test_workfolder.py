"""Promises of `python -m course.build work`: output-free copies, and never over a student's edits."""

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from course.build.__main__ import main
from course.build.files import new_notebook, read_notebook, write_notebook
from course.build.workfolder import LAID, lay_copies

NAME = "07-entry.ipynb"


def publish(root: Path, code: str) -> None:
    """Write the course's notebook of one lesson."""
    folder = root / "notebooks"
    folder.mkdir(exist_ok=True)
    cells = [
        new_markdown_cell("# Question", id="07-t"),
        new_code_cell(
            code,
            id="07-a",
            metadata={"tags": ["rtol=1e-2"]},
            execution_count=1,
            outputs=[new_output("stream", name="stdout", text="the answer is 42\n")],
        ),
    ]
    kernel = {"name": "python3", "display_name": "Python 3"}
    write_notebook(new_notebook(cells, {"kernelspec": kernel, "course": {"code": ["hash  07-a"]}}), folder / NAME)


def edit(path: Path, code: str) -> None:
    notebook = read_notebook(path)
    notebook.cells[1].source = code
    write_notebook(notebook, path)


def code_of(path: Path) -> str:
    return str(read_notebook(path).cells[1].source)


def lay(root: Path) -> dict[str, str]:
    return {copy.path.name: copy.action for copy in lay_copies(root / "notebooks", root / "work")}


def notes(root: Path) -> str:
    return " ".join(copy.note for copy in lay_copies(root / "notebooks", root / "work"))


def test_a_copy_keeps_text_code_and_tags_and_has_no_answer(tmp_path: Path) -> None:
    publish(tmp_path, "print(42)")
    assert lay(tmp_path) == {NAME: "laid"}
    copy = read_notebook(tmp_path / "work" / NAME)
    assert [cell.id for cell in copy.cells] == ["07-t", "07-a"]
    assert copy.cells[1].source == "print(42)"
    assert copy.cells[1].metadata.tags == ["rtol=1e-2"]
    assert copy.cells[1].outputs == []
    assert copy.cells[1].execution_count is None
    assert "the answer" not in (tmp_path / "work" / NAME).read_text()
    assert "the answer" in (tmp_path / "notebooks" / NAME).read_text()


def test_solutions_are_not_laid(tmp_path: Path) -> None:
    publish(tmp_path, "stub")
    (tmp_path / "notebooks" / "solutions").mkdir()
    (tmp_path / "notebooks" / NAME).rename(tmp_path / "notebooks" / "solutions" / "08-other.ipynb")
    publish(tmp_path, "stub")
    assert lay(tmp_path) == {NAME: "laid"}
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == [LAID, NAME]


def test_an_untouched_copy_follows_the_course(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    assert lay(tmp_path) == {NAME: "unchanged"}
    publish(tmp_path, "version 2")
    assert lay(tmp_path) == {NAME: "updated"}
    assert code_of(tmp_path / "work" / NAME) == "version 2"


def test_running_a_copy_is_not_editing_it(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    path = tmp_path / "work" / NAME
    ran = read_notebook(path)
    ran.cells[1].execution_count = 5
    ran.cells[1].outputs = [new_output("stream", name="stdout", text="ran\n")]
    ran.metadata["language_info"] = {"name": "python", "version": "3.12.1"}
    write_notebook(ran, path)
    assert lay(tmp_path) == {NAME: "unchanged"}
    assert "ran" in path.read_text()
    publish(tmp_path, "version 2")
    assert "was updated" in notes(tmp_path)


def test_an_edited_copy_is_left_alone_and_the_new_version_is_laid_beside_it_and_said(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    mine, beside = tmp_path / "work" / NAME, tmp_path / "work" / "07-entry.new.ipynb"
    edit(mine, "my own work")
    before = mine.read_bytes()
    assert lay(tmp_path) == {NAME: "kept"}
    assert not beside.exists()

    publish(tmp_path, "version 2")
    note = notes(tmp_path)
    assert "07-entry.new.ipynb is the new version; yours in 07-entry.ipynb is untouched." in note
    assert mine.read_bytes() == before
    assert code_of(beside) == "version 2"
    assert lay(tmp_path) == {NAME: "kept", beside.name: "unchanged"}

    publish(tmp_path, "version 3")
    assert lay(tmp_path) == {NAME: "kept", beside.name: "updated"}
    edit(beside, "more of my work")
    publish(tmp_path, "version 4")
    assert lay(tmp_path) == {NAME: "kept", beside.name: "kept", "07-entry.new2.ipynb": "laid"}
    assert (code_of(mine), code_of(beside)) == ("my own work", "more of my work")


def test_a_new_version_that_the_student_put_away_does_not_come_back(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    edit(tmp_path / "work" / NAME, "my own work")
    publish(tmp_path, "version 2")
    lay(tmp_path)
    (tmp_path / "work" / "07-entry.new.ipynb").unlink()
    assert lay(tmp_path) == {NAME: "kept"}


def test_a_deleted_copy_comes_back_fresh(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    edit(tmp_path / "work" / NAME, "a mess")
    (tmp_path / "work" / NAME).unlink()
    assert lay(tmp_path) == {NAME: "laid"}
    assert code_of(tmp_path / "work" / NAME) == "version 1"


@pytest.mark.parametrize("content", ["", "not a notebook", "[]", '{"nbformat": 4}', "\x00\x00"])
def test_a_file_that_is_no_notebook_is_never_overwritten(tmp_path: Path, content: str) -> None:
    publish(tmp_path, "version 1")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / NAME).write_text(content)
    assert lay(tmp_path) == {NAME: "kept", "07-entry.new.ipynb": "laid"}
    assert (tmp_path / "work" / NAME).read_text() == content


def test_without_its_memory_every_copy_that_differs_counts_as_edited(tmp_path: Path) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    (tmp_path / "work" / LAID).unlink()
    publish(tmp_path, "version 2")
    assert lay(tmp_path) == {NAME: "kept", "07-entry.new.ipynb": "laid"}
    assert code_of(tmp_path / "work" / NAME) == "version 1"


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_memory_gets_a_sentence_and_nothing_is_touched(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(tmp_path, "version 1")
    lay(tmp_path)
    (tmp_path / "work" / LAID).write_text(content)
    publish(tmp_path, "version 2")
    assert main(["work"], tmp_path) == 1
    assert "delete it" in capsys.readouterr().err
    assert code_of(tmp_path / "work" / NAME) == "version 1"


def test_the_command_says_what_it_laid_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work"], tmp_path) == 1
    assert "holds no notebooks" in capsys.readouterr().err
    publish(tmp_path, "version 1")
    assert main(["work", "--into", str(tmp_path / "mine")], tmp_path) == 0
    assert "1 notebooks, 1 of them new" in capsys.readouterr().out
    assert (tmp_path / "mine" / NAME).exists()
    assert not (tmp_path / "work").exists()
