"""The figure of `trace_whole_game`: one column for each moment of the model, an arrow for each stage between them."""

import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from labs.figures import DATA, FAINT, INK, LOSS, MODEL, MOVE
from labs.trace_whole_game import ASKED, MEASURES, MOMENTS, OPENING, as_words
from minimind.trace import Record

WIDE, GAP = 25.0, 12.5
"""Width of a column and of the space between two, of 100."""

STAGES = {
    "pretrain": ("pretraining", "documents"),
    "sft": ("fine-tuning", "questions\nand answers"),
}
BARS = {
    "valid_sentences": "valid sentences",
    "exact_facts": "facts answered",
    "exact_sums": "sums answered",
    "exact_stories": "stories answered",
    "exact_sums_never_trained": "sums never\ntrained",
    "document_loss": "loss on\ndocuments",
    "answer_loss": "loss on\nanswers",
}
"""The measures from top to bottom, in short."""

LINE_CHARACTERS, LINES = 31, 4


def draw_game(record: Record) -> Figure:
    """The three moments side by side.

    Args:
        record: of the lab `trace_whole_game`.
    """
    assert set(BARS) == set(MEASURES)
    with mpl.rc_context({"font.size": 9, "font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(11, 7.2))
        figure.text(
            0.025, 0.955, f"The whole game: {record.values['parameters']:,} parameters, two stages", fontsize=14,
            fontweight="bold",
        )  # fmt: skip
        upper = figure.add_axes((0.025, 0.49, 0.95, 0.44))
        _draw_stages(upper, record)
        for column, moment in enumerate(MOMENTS):
            left = 0.025 + 0.95 * (column * (WIDE + GAP)) / 100
            _draw_bars(figure.add_axes((left, 0.05, 0.95 * WIDE / 100, 0.41)), record, moment)
        _name_bars(figure)
    return figure


def _draw_stages(axes: Axes, record: Record) -> None:
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.axis("off")
    for column, (moment, words) in enumerate(MOMENTS.items()):
        x = column * (WIDE + GAP)
        axes.text(x + WIDE / 2, 94, words, ha="center", va="center", fontsize=12, fontweight="bold")
        _text_box(axes, x, 54, 30, DATA, f"given “{OPENING}”", record.environment[f"{moment} continued"])
        _text_box(axes, x, 8, 30, MODEL, f"asked “{ASKED}”", record.environment[f"{moment} answered"])
    for column, (stage, (name, data)) in enumerate(STAGES.items()):
        left = WIDE + column * (WIDE + GAP)
        middle = left + GAP / 2
        arrow = FancyArrowPatch(
            (left + 0.6, 94), (left + GAP - 0.6, 94), arrowstyle="-|>", mutation_scale=16, color=INK, linewidth=1.6
        )
        axes.add_patch(arrow)
        rows, tokens = record.shapes[f"{stage}.input_ids"]
        facts = (
            f"{record.values[f'{stage}_steps']} updates on\n{data}, first\nbatch {rows}×{tokens} ids\n\n"
            f"{record.values[f'{stage}_supervised_share']:.0%} of the tokens\nare asked for"
        )
        axes.text(middle, 83, name, ha="center", va="center", fontweight="bold")
        axes.text(middle, 76, facts, ha="center", va="top", color=FAINT, fontsize=8.5, linespacing=1.35)


def _text_box(axes: Axes, x: float, y: float, height: float, fill: str, head: str, text: str) -> None:
    axes.text(x + 0.3, y + height + 1.6, head, fontsize=8.5, color=FAINT)
    patch = FancyBboxPatch(
        (x, y), WIDE, height - 1, boxstyle="round,pad=0,rounding_size=0.8", facecolor=fill, edgecolor=INK, linewidth=1,
        clip_on=False,
    )  # fmt: skip
    axes.add_patch(patch)
    lines = textwrap.wrap(_drawable(text) or "(nothing)", LINE_CHARACTERS)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], lines[LINES - 1][: LINE_CHARACTERS - 2] + " …"]
    axes.text(
        x + 1, y + height - 4.5, "\n".join(lines), va="top", family="DejaVu Sans Mono", fontsize=8.2, linespacing=1.45,
        parse_math=False,
    )  # fmt: skip


def _drawable(text: str) -> str:
    """The text with signs for what the font of the figure cannot show, such as Chinese characters."""
    return "".join("↵" if each == "\n" else each if each.isascii() and each.isprintable() else "□" for each in text)


def _draw_bars(axes: Axes, record: Record, moment: str) -> None:
    most = max(float(_value(record, name, each)) for name in BARS if name.endswith("_loss") for each in MOMENTS)
    for row, name in enumerate(BARS):
        value = _value(record, name, moment)
        is_loss = name.endswith("_loss")
        length = value / most if is_loss else value
        axes.barh(row, length, color=LOSS if is_loss else MOVE, edgecolor=INK, hatch="///" if is_loss else None,
                  linewidth=0.9, height=0.62)  # fmt: skip
        inside = length > 0.75
        axes.text(
            length - 0.02 if inside else length + 0.02, row, as_words(name, value), va="center",
            ha="right" if inside else "left", fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9} if inside else None,
        )  # fmt: skip
    axes.axhline(4.5, color=FAINT, linewidth=0.8, linestyle=":")
    axes.set_xlim(0, 1.0)
    axes.set_ylim(len(BARS) - 0.45, -0.55)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _name_bars(figure: Figure) -> None:
    """The names of the bars stand in both gaps, so that each column is near one."""
    for column in (0, 1):
        left = 0.025 + 0.95 * (WIDE + column * (WIDE + GAP)) / 100
        axes = figure.add_axes((left, 0.05, 0.95 * GAP / 100, 0.41))
        axes.set_xlim(0, 1)
        axes.set_ylim(len(BARS) - 0.45, -0.55)
        axes.axis("off")
        for row, words in enumerate(BARS.values()):
            axes.text(0.5, row, words, ha="center", va="center", fontsize=8.5)
        axes.axhline(4.5, color=FAINT, linewidth=0.8, linestyle=":")
    figure.text(
        0.025, 0.015, "Plain bars: shares of all, more is better. Hatched: loss in nats per token, less is better. "
        "Signs: □ a Chinese character, ↵ a new line.", fontsize=8.5, color=FAINT,
    )  # fmt: skip


def _value(record: Record, name: str, moment: str) -> Any:
    return record.values[f"{name}_{moment}"]


def draw_sums(right: npt.NDArray[np.bool_]) -> Figure:
    """Which sums of two digits a model does right; the diagonal, framed, it was never shown.

    Args:
        right: (10, 10), whether `a + b` was answered exactly, at row a and column b.
    """
    with mpl.rc_context({"font.size": 9, "font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(5.4, 5.2), layout="constrained")
        axes = figure.subplots()
        for a, b in np.ndindex(right.shape):
            axes.add_patch(
                Rectangle(
                    (b - 0.46, a - 0.46), 0.92, 0.92, facecolor=MOVE if right[a, b] else "white",
                    edgecolor=INK if a == b else "#c9ced6", linewidth=2.2 if a == b else 0.6,
                )
            )  # fmt: skip
            axes.text(b, a, "✓" if right[a, b] else "✗", ha="center", va="center", fontsize=11)
        axes.set(xlim=(-0.6, 9.6), ylim=(9.6, -0.6), xticks=range(10), yticks=range(10), aspect="equal")
        axes.set_xlabel("second digit")
        axes.set_ylabel("first digit")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(
            f"“What is a + b?”  {right.sum()} of 100 right; never shown (framed): {np.diag(right).sum()} of 10",
            loc="left",
        )
    return figure
