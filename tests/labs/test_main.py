"""`python -m labs`, mostly on labs that cost nothing, and its report."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from labs import __main__ as command
from labs import lab
from minimind.trace import Record


def draw(record: Record) -> Figure:
    """A box & what is in it.

    More that is not said beside the figure.
    """
    return Figure(figsize=(1, 1))


def a_lab(name: str, loss: float = 2.0, error: Exception | None = None) -> SimpleNamespace:
    """A lab that measures `loss`, or raises."""

    def run() -> Record:
        if error is not None:
            raise error
        return Record(name, environment={"torch": "9.9.9"}, shapes={"logits": [2, 3]}, values={"loss": loss, "n": 7})

    return SimpleNamespace(QUESTION=f"What does <{name}> measure?", run=run, draw=draw)


@pytest.fixture
def labs(tmp_path, monkeypatch) -> dict[str, SimpleNamespace]:
    """Two labs that are equal to their references, with a folder of records; a test puts more in."""
    there = {name: a_lab(name) for name in ("first", "last")}
    monkeypatch.setattr(command, "find_labs", lambda: there)
    monkeypatch.setattr(lab, "RECORDS", tmp_path / "records")
    for name, module in there.items():
        module.run().save(lab.reference_path(name))
    return there


# --- the list -------------------------------------------------------------------------------------


def test_the_list_has_every_lab_with_its_question_and_how_to_run_it(capsys):
    assert command.main([]) == 0
    shown = capsys.readouterr().out
    there = {path.stem for path in Path(command.__file__).parent.glob("*.py") if "\nQUESTION = " in path.read_text()}
    assert set(command.find_labs()) == there >= {"trace_pretrain_step"}
    for name in there:
        assert f"{name}\n" in shown and f"python -m labs.{name} --help" in shown
    assert "How do arguments become one parameter update?" in shown


def test_every_lab_has_a_reference_record_and_every_record_a_lab():
    there = {path.stem for path in lab.RECORDS.glob("*.json")}
    assert there == set(command.find_labs())


def test_every_lab_can_be_run_and_drawn():
    for name, module in command.find_labs().items():
        assert callable(module.run) and callable(module.draw), name


# --- run ------------------------------------------------------------------------------------------


def test_run_prints_one_line_for_each_lab_named_in_that_order(labs, capsys):
    assert command.main(["run", "last", "first", "last"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.fullmatch(r"(\w+) +\d+\.\d s  equal to its reference", line)[1] for line in lines] == ["last", "first"]


def test_run_all_goes_on_after_a_lab_that_fails_and_returns_1(labs, capsys):
    labs["first"] = a_lab("first", error=ValueError("data_path='x' is not here.\nFetch it."))
    assert command.main(["run", "--all"]) == 1
    shown = capsys.readouterr()
    first, last = shown.out.splitlines()
    assert first.endswith("failed: data_path='x' is not here. Fetch it.")
    assert last.endswith("equal to its reference")
    assert not shown.err


def test_a_lab_that_fails_by_a_bug_is_shown_with_the_place(labs, capsys):
    labs["first"] = a_lab("first", error=KeyError("loss"))
    assert command.main(["run", "first"]) == 1
    shown = capsys.readouterr()
    assert "failed: KeyError: 'loss'" in shown.out
    assert "Traceback" in shown.err and "raise error" in shown.err


def test_a_difference_is_named_and_fails_only_where_it_is_checked(labs, capsys):
    labs["first"] = a_lab("first", loss=2.1)
    assert command.main(["run", "--all"]) == 0
    assert "1 field differs from its reference: values.loss" in capsys.readouterr().out
    assert command.main(["run", "--all", "--check"]) == 1
    shown = capsys.readouterr().out
    assert "1 field differs from its reference: values.loss" in shown and "last " in shown


def test_a_missing_reference_fails_only_where_it_is_checked(labs, capsys):
    lab.reference_path("last").unlink()
    assert command.main(["run", "--all"]) == 0
    assert "`python -m labs record last`" in capsys.readouterr().out
    assert command.main(["run", "--all", "--check"]) == 1


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["run", "frist"], "there is no lab 'frist'; choose from first, last."),
        (["record", "frist"], "there is no lab 'frist'; choose from first, last."),
        (["run"], "name the labs to run, or give --all; there are first, last."),
        (["run", "first", "--all"], "name the labs to run, or give --all; there are first, last."),
    ],
)
def test_a_wrong_name_is_one_sentence_with_the_names_there_are(argv, sentence, labs, capsys):
    assert command.main(argv) == 1
    shown = capsys.readouterr()
    assert shown.err == f"labs: {sentence}\n" and not shown.out


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["runn"])
    assert stopped.value.code == 2
    assert "'run', 'record'" in capsys.readouterr().err.replace('"', "'")


# --- record ---------------------------------------------------------------------------------------


def test_record_makes_a_reference_that_the_next_run_is_equal_to(labs, capsys):
    labs["new"] = a_lab("new")
    assert command.main(["record", "new"]) == 0
    assert lab.load_reference("new") == labs["new"].run()
    assert command.main(["run", "new", "--check"]) == 0


def test_record_says_what_changed_and_keeps_the_tolerances_set_by_hand(labs, capsys):
    before = lab.load_reference("first")
    before.bands = {"loss": 0.01}
    before.save(lab.reference_path("first"))
    labs["first"] = a_lab("first", loss=3.0)
    assert command.main(["record", "first"]) == 0
    assert "values.loss: 3.0 here, 2.0 in the reference" in capsys.readouterr().out
    after = lab.load_reference("first")
    assert after.values["loss"] == 3.0 and after.bands == {"loss": 0.01}


def test_record_refuses_to_write_over_a_file_that_it_cannot_read(labs, capsys):
    path = lab.reference_path("first")
    path.write_text("{", encoding="utf-8")
    assert command.main(["record", "first"]) == 1
    shown = capsys.readouterr().err
    assert str(path) in shown and "delete that file" in shown
    assert path.read_text(encoding="utf-8") == "{"


# --- report ---------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Reads a page: checks that every element is closed in order, keeps elements and text."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_report_has_every_part_of_every_lab(labs, tmp_path, capsys):
    labs["other"] = a_lab("other", loss=2.1)
    a_lab("other").run().save(lab.reference_path("other"))
    labs["sick"] = a_lab("sick", error=ValueError("steps=0 makes no <update>."))
    folder = tmp_path / "new" / "folder"
    assert command.main(["run", "--all", "--report", str(folder)]) == 1
    assert str(folder / "index.html") in capsys.readouterr().out
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    for name in labs:
        assert f"What does <{name}> measure?" in page.text
        assert f"python labs/{name}.py ran 0.0 s" in page.text
        assert {"href": f"#{name}"} in page.all("a") and {"id": name} in page.all("section")
    assert "2 of 4 equal to their reference records" in page.text
    assert "values.loss: 2.1 here, 2.0 in the reference (rtol 0.0001)" in page.text
    assert "failed: steps=0 makes no <update>." in page.text
    assert page.text.count("logits.shape = (2, 3)\nloss = 2") == 3, "the table of each lab that ran"
    assert page.text.count("9.9.9") == 6, "the environment here and that of the reference"
    images = page.all("img")
    assert [image["alt"] for image in images] == ["A box & what is in it."] * 3
    for image in images:
        head, data = image["src"].split(",")
        assert head == "data:image/png;base64"
        assert imread(io.BytesIO(base64.b64decode(data))).shape == (130, 130, 4)


def test_the_report_is_one_file_that_asks_nothing_of_the_network(labs, tmp_path):
    assert command.main(["run", "--all", "--report", str(tmp_path / "report")]) == 0
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["index.html"]
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?://|url\(|@import", text)
    assert not page.all("script") and not page.all("link")
    for _, attributes in page.elements:
        assert attributes.get("href", "#").startswith("#") and attributes.get("src", "data:").startswith("data:")
    assert "prefers-color-scheme: dark" in text and "@media print" in text


def test_a_report_that_cannot_be_written_whole_leaves_the_one_before(labs, tmp_path, monkeypatch, capsys):
    (tmp_path / "index.html").write_text("before", encoding="utf-8")
    there = sorted(tmp_path.iterdir())
    monkeypatch.setattr("labs.report.os.replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    assert command.main(["run", "--all", "--report", str(tmp_path)]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == "before"
    assert sorted(tmp_path.iterdir()) == there, "no half-written file stays behind"


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_report_into_a_file_is_refused_before_any_lab_runs(below, labs, tmp_path, capsys):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    labs["first"].run = lambda: pytest.fail("a lab ran")
    assert command.main(["run", "--all", "--report", str(tmp_path / "file" / below)]) == 1
    assert f"{tmp_path / 'file'} is a file; name a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_figure_that_cannot_be_drawn_fails_its_lab_and_keeps_its_table(labs, tmp_path, capsys):
    def broken(record: Record) -> Figure:
        raise ValueError("the record has 0 steps.")

    labs["first"].draw = broken
    assert command.main(["run", "--all", "--report", str(tmp_path / "report")]) == 1
    assert "failed: the record has 0 steps." in capsys.readouterr().out
    page = Page((tmp_path / "report" / "index.html").read_text(encoding="utf-8"))
    assert page.text.count("logits.shape = (2, 3)") == 2 and len(page.all("img")) == 1
