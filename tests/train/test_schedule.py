"""The rate rises in a straight line and falls along a cosine."""

import math

import pytest

from minimind.train.schedule import warmup_cosine


@pytest.mark.parametrize("total", [1, 7, 100])
def test_without_warm_up_it_is_minimind_s_own_formula(total):
    factor = warmup_cosine(total)
    for step in range(total + 1):
        assert factor(step) == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi * step / total)), abs=1e-12)


def test_it_starts_at_the_peak_ends_at_a_tenth_and_stays_there():
    factor = warmup_cosine(50)
    assert factor(0) == 1.0
    assert [factor(step) for step in (50, 51, 500)] == pytest.approx([0.1] * 3)
    assert [factor(step) for step in range(51)] == sorted((factor(step) for step in range(51)), reverse=True)


def test_the_warm_up_is_a_straight_line_whose_first_step_moves():
    factor = warmup_cosine(20, warmup_steps=4)
    assert [factor(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_after_the_warm_up_the_cosine_takes_what_is_left():
    late, whole = warmup_cosine(20, warmup_steps=4, floor=0.3), warmup_cosine(16, floor=0.3)
    assert [late(step) for step in range(4, 22)] == pytest.approx([whole(step) for step in range(18)])
    assert late(20) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"total_steps": 0}, "0 steps"),
        ({"total_steps": 4, "warmup_steps": 4}, "4 steps with 4 of warm-up"),
        ({"total_steps": 4, "warmup_steps": -1}, "-1 of warm-up"),
        ({"total_steps": 4, "floor": 1.5}, "floor=1.5"),
        ({"total_steps": 4, "floor": -0.1}, "floor=-0.1"),
    ],
)
def test_lengths_that_make_no_schedule_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        warmup_cosine(**settings)
