import pytest

from course.kit.style import code_block, code_span, markdown_table, number, to_html


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (63912192, "63,912,192"),
        (0.1, "0.1"),
        (1.0, "1.0"),
        (5e-4, "0.0005"),
        (8.7651234, "8.765"),
        (1.1000004, "1.100"),
        (2345.678, "2345.7"),
        (0.0, "0.0"),
        (True, "True"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_four_significant_digits_and_whole_numbers_all(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize("value", [5.0, 1234.0, 999999.7, 1e7, -3.0])
def test_a_float_never_looks_like_a_whole_number(value):
    assert any(mark in number(value) for mark in ".e")


def test_code_holds_backticks():
    assert code_span("a `b` c") == "`` a `b` c ``"
    assert code_block("x = '```'").startswith("````\n")


def test_markdown_becomes_html_with_tables_and_formulas_and_no_raw_html():
    assert "<td" in to_html(markdown_table(["a", "b"], [["x", "1"]]))
    assert r"\(a_b*c*d\)" in to_html("$a_b*c*d$")
    assert "<script" not in to_html("<script>alert(1)</script>")
