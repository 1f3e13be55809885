import numpy as np
import pytest
import torch

from course.kit import compare


@pytest.mark.parametrize(
    ("yours", "reference", "line"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), "w: exact, shape (2, 3)"),
        (torch.ones(2) * (1 + 1e-6), torch.ones(2), "w: close (rtol 1e-05), shape (2,)"),
        (np.ones(2), torch.ones(2), "w: exact, shape (2,), dtype float64 against float32"),
        (3, 3, "w: exact"),
        (0.1, torch.tensor(0.1), "w: close (rtol 1e-05)"),
        ("sdpa", "sdpa", "w: exact"),
        ([1, 2], (1, 2), "w: exact, shape (2,)"),
        ({}, {}, "w: exact, both empty"),
        (torch.tensor([True, False]), torch.tensor([True, False]), "w: exact, shape (2,)"),
        (
            torch.tensor([float("nan"), 1.0]),
            torch.tensor([float("nan"), 1.0]),
            "w: exact, shape (2,), 1 NaN in the reference",
        ),
        (torch.tensor([-torch.inf, 1.0]), torch.tensor([-torch.inf, 1.0]), "w: exact, shape (2,)"),
        (torch.zeros(0), torch.zeros(0), "w: exact, shape (0,)"),
    ],
)
def test_equal_and_close_values_agree(capsys, yours, reference, line):
    assert compare("w", yours, reference)
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    ("yours", "reference", "line"),
    [
        (
            torch.tensor([[1.0, 2.0], [3.0, 4.5]]),
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            "w: DIFFERENT, max difference 0.5 at [1, 1]: yours 4.5, reference 4.0, shape (2, 2)",
        ),
        (torch.ones(2, 3), torch.ones(3, 2), "w: DIFFERENT shapes, yours (2, 3), reference (3, 2)"),
        (torch.ones(1), 1.0, "w: DIFFERENT shapes, yours (1,), reference ()"),
        (7, 8, "w: DIFFERENT, max difference 1: yours 7, reference 8"),
        (100_000_001, 100_000_000, "w: DIFFERENT, max difference 1: yours 100,000,001, reference 100,000,000"),
        ("sdpa", "eager", "w: DIFFERENT, yours 'sdpa', reference 'eager'"),
        (None, 1.0, "w: DIFFERENT, yours None, reference 1.0"),
        (
            torch.tensor([1.0, float("nan")]),
            torch.ones(2),
            "w: DIFFERENT, max difference inf at [1]: yours nan, reference 1.0, shape (2,)",
        ),
        (
            torch.tensor([1.0, 5.0]),
            torch.tensor([1.0, torch.inf]),
            "w: DIFFERENT, max difference inf at [1]: yours 5.0, reference inf, shape (2,)",
        ),
        (
            torch.tensor([True, False]),
            torch.tensor([True, True]),
            "w: DIFFERENT, max difference 1 at [1]: yours False, reference True, shape (2,)",
        ),
    ],
)
def test_differences_are_said_with_their_place(capsys, yours, reference, line):
    assert not compare("w", yours, reference)
    assert capsys.readouterr().out == line + "\n"


def test_an_entry_near_zero_may_carry_the_noise_of_its_neighbours_but_zeros_are_not_close():
    reference = torch.tensor([1e-9, 1e-3])
    assert compare("g", reference + torch.tensor([1e-9, 0.0]), reference)
    assert not compare("g", torch.zeros(2), reference)
    assert not compare("g", torch.zeros(2), torch.tensor([1e-9, 2e-9]))


def test_rtol_zero_asks_for_the_same_bits():
    assert not compare("w", torch.tensor(1.0000001), torch.tensor(1.0), rtol=0)


def test_dicts_are_compared_key_by_key(capsys):
    result = compare("p", {"a": 1, "b": 2.0, "d": 0}, {"a": 1, "b": 2.5, "c": 3})
    assert not result and result.max_difference == 0.5
    assert capsys.readouterr().out.splitlines() == [
        "p['a']: exact",
        "p['b']: DIFFERENT, max difference 0.5: yours 2.0, reference 2.5",
        "p['c']: DIFFERENT, missing in yours",
        "p['d']: DIFFERENT, not in the reference",
    ]


def test_the_noise_of_a_close_pair_is_kept_and_not_printed(capsys):
    result = compare("w", torch.tensor([1.0, 1.000001]), torch.ones(2))
    assert result.verdict == "close" and result.index == (1,)
    assert result.max_difference == pytest.approx(1e-6, rel=0.1)
    assert "e-07" not in (shown := capsys.readouterr().out) and "9.5" not in shown


def test_a_tensor_that_needs_grad_and_bf16_are_compared():
    assert compare("w", torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16))
