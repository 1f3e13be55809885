"""The lab that asks a machine what it can run: equal to its reference on any machine, and telling about this one."""

import sys

import pytest
from matplotlib.image import imread

from labs import check_readiness as lab
from labs.lab import check
from minimind.readiness import FIGURES, Accelerator, Disk, Machine
from minimind.trace import Record

ANOTHER = Machine(
    system="Darwin",
    processor="arm64",
    cores=12,
    memory_bytes=None,
    bfloat16=True,
    accelerators=(Accelerator("mps", "Apple GPU", 20 * 2**30, bfloat16=True),),
    nvidia_driver=False,
    save_disk=Disk(2**20, 1),
    checkpoint_disk=Disk(2**40, 2),
)


@pytest.fixture(scope="module")
def record() -> Record:
    """The lab with its default arguments."""
    return lab.run()


def texts(figure) -> str:
    return "\n".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_the_default_run_equals_its_reference(record):
    assert check(record) == []


def test_another_machine_gives_the_same_record_and_another_environment(record, monkeypatch):
    monkeypatch.setattr(lab, "this_machine", lambda run: ANOTHER)
    elsewhere = lab.run(measure=0)
    assert check(elsewhere) == []
    assert elsewhere.values == record.values
    assert elsewhere.environment["check disk save_dir"].startswith("missing: 1.0 MiB free -> ")
    assert elsewhere.environment["check device"] == "ok: cpu with 12 cores, mps (Apple GPU)"


def test_a_number_that_a_run_needs_is_compared(record):
    wrong = lab.ReadinessRecord.from_dict(record.to_dict())
    wrong.values["64M optimizer_bytes"] -= 4
    wrong.values["documents of tang5"] -= 1
    wrong.values["lab memory_bytes"] *= 1.2  # an estimate, which differs with the kernels
    assert [line.split(":")[0] for line in check(wrong)] == ["values.64M optimizer_bytes", "values.documents of tang5"]


def test_the_record_holds_what_the_runs_need(record):
    assert record.values["64M parameters"] == 63_912_192
    assert record.values["lab weight_bytes"] == 4 * 532_832
    assert record.values["lesson checkpoints"] == 2, "460 updates, saved every 230"
    assert record.values["documents of tang5"] == 16_809
    assert {"python", "package torch", "precision", "weights", "tests browser"} <= set(record.values["checks"])
    for name in FIGURES:
        assert record.environment[f"time of {name}"].startswith("about ")


def test_what_is_missing_is_printed_with_its_command(monkeypatch, capsys, tmp_path):
    argv = ["check_readiness.py", "--from_weight", "first", "--save_dir", str(tmp_path), "--measure", "0"]
    monkeypatch.setattr(sys, "argv", argv)
    assert lab.main() == 0
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.startswith("weights ")]
    assert "missing: there are no weights at 'first'" in line
    assert line.endswith(f" -> minimind pretrain --save_dir {tmp_path} --save_weight first")
    assert "63,912,192" in shown and "time of" not in shown


def test_check_names_what_was_asked_otherwise(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check_readiness.py", "--preset", "lab", "--measure", "0", "--check"])
    assert lab.main() == 1
    assert "arguments.preset: 'lab' here, 'lesson' in the reference" in capsys.readouterr().err


def test_a_device_that_is_not_here_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check_readiness.py", "--device", "abacus"])
    assert lab.main() == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("check_readiness: device='abacus'") and shown.err.count("\n") == 1 and not shown.out


def test_the_figure_says_in_words_what_does_not_fit(record, tmp_path):
    assert texts(lab.draw(record)).count("✓ fits") + texts(lab.draw(record)).count("✗ too large") == 2 * len(FIGURES)
    record = lab.ReadinessRecord.from_dict(record.to_dict())
    record.environment |= {"free bytes of memory": str(2**30), "free bytes of disk": str(2**30)}
    shown = texts(lab.draw(record))
    assert shown.count("✗ too large") == 2 and shown.count("✓ fits") == 4
    record.environment |= {"free bytes of memory": ""}  # a system that does not say
    figure = lab.draw(record)
    assert texts(figure).count("free here") == 1
    figure.savefig(tmp_path / "readiness.png", dpi=60)
    assert imread(tmp_path / "readiness.png").std() > 0.05, "there is something in the picture"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0.2 seconds"), (119, "119.0 seconds"), (121, "2 minutes"), (3 * 3600, "3 hours"), (9 * 86_400, "9 days"),
     (1e9, "32 years")],
)  # fmt: skip
def test_a_time_is_said_as_a_person_says_it(seconds, words):
    assert lab.in_words(seconds) == words
