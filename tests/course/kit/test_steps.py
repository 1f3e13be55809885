import sys
import types

import pytest
from matplotlib.figure import Figure

from course.kit import flow, scrub
from course.kit.steps import Scrubber, draw_movement, steps_markdown
from minimind.trace.record import Record

PNG = b"\x89PNG"


def test_the_slider_moves_label_table_and_picture(record):
    scrubber = Scrubber(record)
    assert scrubber.label.value == "step 1 of 3"
    first = bytes(scrubber.picture.value)
    assert first.startswith(PNG) and "8.667" in scrubber.table.value
    scrubber.slider.value = 3
    assert scrubber.label.value == "step 3 of 3"
    assert bytes(scrubber.picture.value).startswith(PNG) and scrubber.picture.value != first
    assert "8.0" in scrubber.table.value and "0.0001667" in scrubber.table.value
    assert "model.embed_tokens.weight" in scrubber.table.value
    scrubber.slider.value = 1
    assert scrubber.picture.value == first


def test_the_scrubber_carries_its_css_class(record):
    assert "course-scrub" in Scrubber(record).box._dom_classes


def test_a_record_of_one_step_has_nothing_to_slide(record):
    record.steps = record.steps[:1]
    scrubber = Scrubber(record)
    assert scrubber.slider.disabled and scrubber.label.value == "step 1 of 1"


def test_the_static_twin_is_a_table_of_all_steps(record):
    lines = steps_markdown(record).splitlines()
    assert len(lines) == 2 + 3
    assert lines[2] == "| 1 | 8.667 | 0.0005 | 2.5 | 1.0 | `model.embed_tokens.weight` | 0.001 |"


@pytest.mark.parametrize("mode", ["attended", "unattended"])
def test_scrub_shows_the_twin_in_both_modes(request, mode, record, capsys):
    request.getfixturevalue(mode)
    scrub(record)
    assert "| 3 | 8.0 |" in capsys.readouterr().out


def test_the_bars_share_one_axis_over_all_steps(record):
    limits = {draw_movement(record, position).axes[0].get_xlim() for position in (1, 2, 3)}
    assert len(limits) == 1


def test_a_large_model_shows_the_parameters_that_moved_most_and_says_how_many_it_left_out(record):
    step = record.steps[0]
    template = step.parameters["model.norm.weight"]
    step.parameters = {f"p{i}": type(template)([1], 1.0, 0.1, 0.001 * (i + 1), 0.1) for i in range(30)}
    axes = draw_movement(record, 1).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(labels) == 24 and "p29" in labels and "p0" not in labels
    assert "6 that moved less left out" in axes.get_title(loc="left")


def test_a_record_without_steps_is_a_sentence():
    for show in (scrub, flow):
        with pytest.raises(ValueError, match="The record of 'empty' has no steps"):
            show(Record(lab="empty"))


def test_flow_shows_the_figure_and_prints_its_numbers(monkeypatch, record, capsys):
    figures = types.ModuleType("labs.figures")
    drawn = []
    figures.draw_step = lambda record, step: drawn.append(step) or Figure()
    monkeypatch.setitem(sys.modules, "labs.figures", figures)
    flow(record, step=0)
    assert drawn == [0]
    assert capsys.readouterr().out.splitlines() == [
        "[flow of one training step]",
        "input_ids.shape = (2, 48)",
        "logits.shape = (2, 48, 6400)",
        "loss = 8.667",
        "learning_rate = 0.0005",
        "grad_norm_before_clip = 2.5",
        "grad_norm_after_clip = 1.0",
        "moved most: model.embed_tokens.weight (delta_rms = 0.001)",
    ]


def test_parameters_that_moved_alike_are_not_ranked_by_rounding(record, capsys):
    for parameter in record.steps[0].parameters.values():
        parameter.delta_rms = 5e-4
    record.steps[0].parameters["model.norm.weight"].delta_rms = 5.0000001e-4
    assert "all alike" in steps_markdown(record).splitlines()[2]
    flow(record, step=0)
    assert "moved most: all alike" in capsys.readouterr().out
