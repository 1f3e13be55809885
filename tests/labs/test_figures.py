"""Figures say what the record says, for any number of steps and layers."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from labs.figures import draw_step
from minimind.trace import ParameterRecord, Record, StepRecord


def a_record(layers: int = 2, steps: int = 3, moved: float = 1e-4) -> Record:
    """A record as a lab writes it, with numbers that are easy to find again."""
    names = [f"model.layers.{i}.{part}.weight" for i in range(layers) for part in ("self_attn.q_proj", "mlp.up_proj")]
    parameters = {
        name: ParameterRecord([4, 4], 0.1, moved * (k + 1), moved * (k + 1) / 2, 0.01)
        for k, name in enumerate(["model.embed_tokens.weight", *names, "model.norm.weight"])
    }
    shapes = {"input_ids": [2, 5], "labels": [2, 5], "logits": [2, 5, 11]}
    shapes |= {f"model.layers.{i}": [2, 5, 4] for i in range(layers)}
    return Record(
        "a lab",
        shapes=shapes,
        values={"parameters": 1234},
        steps=[
            StepRecord(i, 9.0 - i / 8, 1e-3 / i, 2.0 + i / 8, 1.0, 8 + i, [9.0 - i / 8], [0, 1], parameters, 0.1)
            for i in range(1, steps + 1)
        ],
    )


def pixels(figure: Figure) -> np.ndarray:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=60)
    return imread(io.BytesIO(png.getvalue()))


def words(figure: Figure) -> set[str]:
    """Every text in the figure, tick labels included."""
    figure.set_layout_engine("none")  # places things, which takes seconds, and changes no word
    figure.draw_without_rendering()
    return {text.get_text() for text in figure.findobj(Text) if text.get_visible()}


@pytest.mark.parametrize(("layers", "steps"), [(1, 1), (2, 3), (8, 1), (28, 3)])
def test_a_step_can_be_drawn_for_any_depth_and_number_of_steps(layers, steps):
    assert pixels(draw_step(a_record(layers, steps))).std() > 0.05


def test_the_flow_shows_the_shapes_and_numbers_of_the_step_drawn():
    shown = words(draw_step(a_record(), 1))
    assert "One training step: 1,234 parameters, update 2 of 3" in shown
    assert {"2×5", "2×5×4", "2×5×11", "2 blocks", "8.7500", "norm 2.2500", "norm 1.0000"} <= shown
    assert {"learning rate 5.0e-04", "moved by at most 6.00e-04", "labels 2×5, 10 positions supervised"} <= shown


def test_negative_steps_count_from_the_end():
    for step, update in ((-1, 3), (-3, 1), (0, 1)):
        title = f"One training step: 1,234 parameters, update {update} of 3"
        assert draw_step(a_record(), step).get_suptitle() == title


def test_one_layer_is_one_block_and_one_step_has_one_mark():
    shown = words(draw_step(a_record(layers=1, steps=1)))
    assert "1 block" in shown and "1 blocks" not in shown
    assert not {text for text in shown if text.startswith("0.9")}, "the axis counts whole updates"


def test_the_map_has_a_row_for_each_kind_of_parameter_and_a_column_for_each_layer():
    shown = words(draw_step(a_record(layers=2)))
    assert {"embed_tokens", "self_attn.q_proj", "mlp.up_proj", "norm", "block 0", "block 1"} <= shown
    assert {"5.0e-05", "3.0e-04"} <= shown, "the smallest and the largest movement, in numbers"
    many = words(draw_step(a_record(layers=8)))
    assert {"0", "7", "block (first column: outside the blocks)"} <= many


@pytest.mark.parametrize("step", [3, -4])
def test_a_step_that_was_not_recorded_is_refused_in_a_sentence(step):
    with pytest.raises(ValueError, match=rf"the record has 3 steps, so there is no step {step} to draw\."):
        draw_step(a_record(), step)


def test_a_record_without_steps_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="the record has 0 steps"):
        draw_step(replace(a_record(), steps=[]))


@pytest.mark.parametrize("moved", [0.0, 1e-30])
def test_parameters_that_did_not_move_can_be_drawn(moved):
    assert pixels(draw_step(a_record(moved=moved))).std() > 0.05
