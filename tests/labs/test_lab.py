"""The command line that every lab shares, on a lab that costs nothing."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from labs import lab
from minimind.trace import Record


def run(width: int = 3, rate: float = 0.5, hook: object = None) -> Record:
    """Multiplies.

    Args:
        width: how wide.
        rate: how fast.
        hook: only for Python.
    """
    if width < 1:
        raise ValueError(f"width={width} must be at least 1.")
    return Record("test_lab", arguments={"width": width}, shapes={"x": [1, width]}, values={"area": width * rate})


def draw(record: Record) -> Figure:
    """An empty figure."""
    return Figure(figsize=(1, 1))


def start(*argv: str) -> int:
    return lab.command_line(run, draw, argv, not_options=frozenset({"hook"}))


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch) -> Path:
    """A folder of reference records with that of this lab."""
    monkeypatch.setattr(lab, "RECORDS", tmp_path / "records")
    run().save(lab.reference_path("test_lab"))
    return tmp_path / "records"


def test_a_lab_prints_its_table(capsys):
    assert start("--width", "4") == 0
    assert capsys.readouterr().out == "x.shape = (1, 4)\narea = 2\n"


def test_check_accepts_the_reference_and_names_every_field_that_differs(capsys):
    assert start("--check") == 0
    assert "equal to the reference record test_lab.json" in capsys.readouterr().out
    assert start("--width", "4", "--check") == 1
    shown = capsys.readouterr().err
    assert "3 fields differ from test_lab.json" in shown
    for field in ("arguments.width", "shapes.x[1]", "values.area"):
        assert f"  {field}: " in shown


def test_check_without_a_reference_says_how_to_make_one(capsys, records):
    (records / "test_lab.json").unlink()
    assert start("--check") == 1
    assert "test_lab has no reference record; `python -m labs record test_lab`" in capsys.readouterr().err


def test_json_and_plot_write_files_into_folders_that_they_make(tmp_path, capsys):
    record, plot = tmp_path / "new" / "r.json", tmp_path / "other" / "p.svg"
    assert start("--json", str(record), "--plot", str(plot)) == 0
    assert Record.load(record) == run()
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    assert str(record) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--width", "0"], "test_lab: width=0 must be at least 1."),
        (["--plot", "step.jpg"], "test_lab: plot='step.jpg' must end in .png, .svg or .pdf."),
    ],
)
def test_a_wrong_argument_is_one_sentence_and_status_1(argv, sentence, capsys):
    assert start(*argv) == 1
    shown = capsys.readouterr()
    assert shown.err == sentence + "\n"
    assert not shown.out


def test_an_option_of_the_wrong_type_is_refused_by_name(capsys):
    with pytest.raises(SystemExit) as stopped:
        start("--width", "wide")
    assert stopped.value.code == 2
    assert 'Parser key "width"' in capsys.readouterr().err


def test_what_only_python_can_give_is_no_option(capsys):
    with pytest.raises(SystemExit):
        start("--help")
    shown = capsys.readouterr().out
    assert "--rate" in shown and "how fast" in shown
    assert "hook" not in shown
