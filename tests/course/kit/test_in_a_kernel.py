"""The whole kit in one real kernel: first as the build runs it, then as a student does, pressing buttons from code."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

VIEW = "application/vnd.jupyter.widget-view+json"

SETUP = """
import os
import torch
from course.kit import *
from course.kit.answers import ANSWERS, UNATTENDED, WORK
from course.kit.exercise_cards import ExerciseCard
from minimind.trace.record import ParameterRecord, Record, StepRecord

os.environ.pop(WORK, None)  # a student's own progress is none of these answers

def check(function):
    return Verdict.correct("It matters.") if function(2) == 4 else Verdict.wrong("that is not twice two.")

def step(n):
    moved = {"model.norm.weight": ParameterRecord([4], 0.5, 2e-3, 1e-3 / n, 0.01)}
    return StepRecord(n, 9.0 - n, 5e-4, 2.5, 1.0, 94, [9.0 - n], [0], moved, 0.1)

record = Record(
    "fake",
    shapes={"input_ids": [2, 48], "labels": [2, 48], "logits": [2, 48, 6400]},
    values={"parameters": 1000},
    steps=[step(1), step(2)],
)
card = ExerciseCard(Exercise("99-double", "Double", "Write `double(x)`.", check, lambda x: 2 * x, (), ("Multiply.",)))
choices = [Choice("yes", right=True, why="since it does."), Choice("no", why="it does.")]
"""

ITEMS = {
    "source": 'source("course.kit.quizzes.Choice")',
    "predict": 'guess = predict("99-loss", "Does it fall?", ["no", "yes"])',
    "reveal": 'guess.reveal(lambda: print("loss 7.0") or record, answer=lambda r: "yes" if r is record else "no")',
    "number": 'count = predict_number("99-tokens", "How many?", unit="tokens", stated=90)',
    "number-reveal": 'count.reveal("**94** it is", answer=94)',
    "quiz": 'item = quiz("99-quiz", "Is it so?", choices)',
    "card": "card",
    "check": "card.check(lambda x: x + 1)",
    "own-line": "def half(x):\n    y = torch.zeros(3)\n    return y @ torch.zeros(2)\n\ncard.check(half)",
    "hint": "card.hint()",
    "compare": 'compare("w", torch.ones(2), torch.zeros(2))',
    "flow": "flow(record)",
    "scrub": "scrub(record)",
}

PRESS = """
assert ANSWERS.get("99-loss") is None
guess.input.value = 1
guess.button.click()
count.input.value = "94"
count.button.click()
item.radio.value = 1
item.button.click()
for area in (guess.area, count.area):
    print(*[type(child).__name__ for child in area.children], area.children[-1].value)
print(item.feedback.value)
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    cells = {"setup": SETUP, "unattended": "os.environ[UNATTENDED] = '1'"}
    cells |= {f"{key} unattended": code for key, code in ITEMS.items()}
    cells |= {"attended": "del os.environ[UNATTENDED]\nANSWERS.clear()"}
    cells |= {f"{key} attended": code for key, code in ITEMS.items()}
    cells |= {"press": PRESS}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells.values()])
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path_factory.mktemp("nb"))}},
    ).execute()
    nbformat.validate(notebook)
    return {key: cell.outputs for key, cell in zip(cells, notebook.cells, strict=True)}


def shown(outputs, key):
    """Everything a reader without widgets gets to see of a cell."""
    text = []
    for output in outputs[key]:
        data = output.get("data", {})
        text.append(output.get("text") or data.get("text/markdown") or data.get("text/plain"))
    return "\n".join(text)


def test_unattended_the_notebook_reads_well_without_a_kernel(outputs):
    assert not any(VIEW in output.get("data", {}) for key in ITEMS for output in outputs[f"{key} unattended"])
    assert "class Choice:" in shown(outputs, "source unattended")
    assert "answered **A** (no)" in shown(outputs, "predict unattended")
    result = shown(outputs, "reveal unattended")
    assert "loss 7.0" in result and "model.norm.weight" in result
    assert "The unattended run predicted **A** (no); the run gave **B** (yes): **different**." in result
    assert "close, a little too low" in shown(outputs, "number-reveal unattended")
    assert "<details>" in shown(outputs, "quiz unattended")
    assert "Hint 1 of 1" in shown(outputs, "card unattended")
    assert "that is not twice two." in shown(outputs, "check unattended")
    assert "moved most: model.norm.weight" in shown(outputs, "flow unattended")
    assert "| 2 | 7.0 | 0.0005 |" in shown(outputs, "scrub unattended")
    assert any("image/png" in output.get("data", {}) for output in outputs["flow unattended"])


def test_an_exception_names_the_line_of_the_cell_and_no_file(outputs):
    message = shown(outputs, "own-line unattended")
    assert "in your code, line 3 of the cell: `return y @ torch.zeros(2)`" in message
    assert "ipykernel" not in message and "Traceback" not in message


def test_attended_each_item_is_a_widget_and_leaks_no_answer(outputs):
    for key in ("predict", "reveal", "number", "number-reveal", "quiz", "card", "scrub"):
        (output,) = outputs[f"{key} attended"]
        assert VIEW in output["data"] and output["data"]["text/markdown"]
    for key, secret in (
        ("reveal", "loss 7.0"),
        ("number-reveal", "94"),
        ("quiz", "since it does"),
        ("card", "Multiply"),
    ):
        (output,) = outputs[f"{key} attended"]
        assert secret not in str({**output["data"], VIEW: None})  # a view is a random id, which may hold any digits
    assert "Answer the prediction above" in shown(outputs, "reveal attended")


def test_pressing_the_buttons_fills_what_waited(outputs):
    first, second, third = shown(outputs, "press").splitlines()
    assert first.startswith("HTML HTML HTMLMath HTMLMath ")  # style, printed text, the record's table, the sentence
    assert "You predicted <strong>B</strong> (yes); the run gave the same" in first
    assert "the run gave the same: <strong>right ✓</strong>" in second
    assert "Not B." in third and "it does." in third


def test_nothing_shown_differs_from_run_to_run_or_names_a_folder(outputs):
    for key, cell in outputs.items():
        text = str(
            [{**output.get("data", {}), VIEW: None, "image/png": None, "text": output.get("text")} for output in cell]
        )
        assert not re.search(r"0x[0-9a-f]{6}|object at|model_id|/tmp|/home|/root", text), key
    kept = ("source", "check", "hint", "compare")
    assert all(outputs[f"{key} unattended"] for key in kept)


def test_the_place_of_a_source_is_relative_to_its_package(outputs):
    assert re.search(r"`course/kit/quizzes\.py:\d+`", shown(outputs, "source unattended"))
