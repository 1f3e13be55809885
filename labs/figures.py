"""Figures drawn from records. One look for all lessons, readable in black and white.

Colours stand for the same thing everywhere: data is grey, what the model computes is blue, the loss and its
gradient are orange, what moves the parameters is green.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from minimind.trace import ParameterRecord, Record, StepRecord

INK = "#1f2430"
FAINT = "#6b7280"
DATA, MODEL, LOSS, MOVE = "#e5e7eb", "#bfdbfe", "#fed7aa", "#bbf7d0"
"""Fills of the boxes: data, model, loss and gradient, movement."""
LINE = {"loss": "#c2410c", "grad": "#1d4ed8", "move": "#15803d"}

_LAYER = re.compile(r"^(?:model\.)?layers\.(\d+)\.(.+?)(?:\.weight)?$")


def draw_step(record: Record, step: int = -1) -> Figure:
    """One update: the way forward, the way back, and which parameters moved how far.

    Args:
        record: of a lab that traced training steps.
        step: which recorded step to draw, counted from 0; negative counts from the end.

    Raises:
        ValueError: the record has no such step.
    """
    if not -len(record.steps) <= step < len(record.steps):
        raise ValueError(f"the record has {len(record.steps)} steps, so there is no step {step} to draw.")
    chosen = record.steps[step]
    with mpl.rc_context({"font.size": 9, "font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(11, 8.4), layout="constrained")
        figure.suptitle(
            f"One training step: {record.values.get('parameters', 0):,} parameters, update {chosen.step} "
            f"of {len(record.steps)}",
            fontsize=14,
            fontweight="bold",
            x=0.02,
            ha="left",
        )
        upper, lower = cast(Sequence[SubFigure], figure.subfigures(2, 1, height_ratios=[1.0, 1.45]))
        left, right = cast(Sequence[SubFigure], lower.subfigures(1, 2, width_ratios=[2.1, 1.0]))
        _draw_flow(upper.subplots(), record, chosen)
        _draw_movement(left, chosen)
        _draw_curves(right, record.steps, chosen)
    return figure


def _draw_flow(axes: Axes, record: Record, step: StepRecord) -> None:
    axes.set_xlim(-0.3, 100.3)  # room for the outer edges of the first and the last box
    axes.set_ylim(0, 40)
    axes.axis("off")

    def shape(*names: str) -> str:
        for name in names:
            if name in record.shapes:
                return "×".join(str(n) for n in record.shapes[name])
        return ""

    layers = sum(bool(re.fullmatch(r"(model\.)?layers\.\d+", name)) for name in record.shapes)
    forward = [
        ("input_ids", shape("input_ids"), DATA),
        ("embedding", shape("model.embed_tokens"), MODEL),
        (f"{layers} block{'s' if layers > 1 else ''}" if layers else "model", shape("model.layers.0"), MODEL),
        ("final norm", shape("model.norm"), MODEL),
        ("logits", shape("logits"), MODEL),
        ("loss", f"{step.loss:.4f}", LOSS),
    ]
    moved = max(step.parameters.values(), key=lambda p: p.delta_max)
    back = [
        ("parameters", f"moved by at most {moved.delta_max:.2e}", MOVE),
        ("optimizer", f"learning rate {step.learning_rate:.1e}", MOVE),
        ("gradient, clipped", f"norm {step.grad_norm_after_clip:.4f}", LOSS),
        ("gradient", f"norm {step.grad_norm_before_clip:.4f}", LOSS),
    ]
    top = _boxes(axes, forward, y=26, width=13.0, height=9.5)
    bottom = _boxes(axes, back, y=4, width=19.0, height=9.5)
    for left, right in pairwise(top):
        _arrow(axes, (left[1], 30.75), (right[0], 30.75))
    for left, right in pairwise(bottom):
        _arrow(axes, (right[0], 8.75), (left[1], 8.75))
    _arrow(axes, ((top[-1][0] + top[-1][1]) / 2, 26), ((bottom[-1][0] + bottom[-1][1]) / 2 + 3, 13.5))
    axes.text(0.2, 38.2, "forward: from ids to a number", color=FAINT)
    axes.text(0.2, 15.6, "backward and update: from the number to moved parameters", color=FAINT)
    # The labels enter at the loss: the text stands left of the way back, with an arrow of its own.
    axes.text(
        top[-1][0] - 3, 20.6, f"labels {shape('labels')}, {step.tokens} positions supervised", color=FAINT, ha="right"
    )
    _arrow(axes, (top[-1][0] - 2.6, 21.6), (top[-1][0] + 1.2, 25.6))


def _boxes(
    axes: Axes, boxes: Sequence[tuple[str, str, str]], y: float, width: float, height: float
) -> list[tuple[float, float]]:
    """Draws a row of labelled boxes over the full width; returns the left and right edge of each."""
    gap = (100 - len(boxes) * width) / (len(boxes) - 1)
    edges = []
    for index, (name, detail, fill) in enumerate(boxes):
        x = index * (width + gap)
        patch = FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=1.2", facecolor=fill, edgecolor=INK, linewidth=1
        )
        axes.add_patch(patch)
        axes.text(x + width / 2, y + height * 0.66, name, ha="center", va="center", fontweight="bold")
        axes.text(x + width / 2, y + height * 0.28, detail, ha="center", va="center", fontsize=8.5)
        edges.append((x, x + width))
    return edges


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=INK, linewidth=1.1))


def _draw_movement(figure: SubFigure, step: StepRecord) -> None:
    """A map of the model: one row a kind of parameter, one column a layer; darker moved further."""
    axes = figure.subplots()
    kinds: list[str] = []
    layers: set[int] = set()
    cells: dict[tuple[str, int | None], ParameterRecord] = {}
    for name, parameter in step.parameters.items():
        match = _LAYER.match(name)
        kind = match[2] if match else name.removeprefix("model.").removesuffix(".weight")
        layer = int(match[1]) if match else None
        if layer is not None:
            layers.add(layer)
        if kind not in kinds:
            kinds.append(kind)
        cells[kind, layer] = parameter
    columns: list[int | None] = [None, *sorted(layers)]
    values = np.full((len(kinds), len(columns)), np.nan)
    for (kind, layer), parameter in cells.items():
        values[kinds.index(kind), columns.index(layer)] = parameter.delta_rms
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (finite.min(), finite.max()) if finite.size else (1e-12, 1.0)
    colours = mpl.colormaps["Greens"].with_extremes(bad="white")
    image = axes.imshow(values, aspect="auto", cmap=colours, norm=mpl.colors.LogNorm(low / 3, max(high * 1.5, low * 2)))
    if len(columns) <= 7:
        for row in range(len(kinds)):
            for column in range(len(columns)):
                if np.isfinite(values[row, column]):
                    dark = values[row, column] > np.sqrt(low / 3 * high * 1.5) * 1.6
                    axes.text(
                        column, row, f"{values[row, column]:.1e}", ha="center", va="center", fontsize=8,
                        color="white" if dark else INK,
                    )  # fmt: skip
    if len(columns) <= 7:
        axes.set_xticks(range(len(columns)), ["outside\nthe blocks", *(f"block {layer}" for layer in sorted(layers))])
    else:  # too narrow for words
        axes.set_xticks(range(len(columns)), ["", *(str(layer) for layer in sorted(layers))])
        axes.set_xlabel("block (first column: outside the blocks)")
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_title("Where the parameters moved (rms change of an entry)", loc="left", fontweight="bold")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)


def _draw_curves(figure: SubFigure, steps: Sequence[StepRecord], chosen: StepRecord) -> None:
    numbers = [step.step for step in steps]
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(numbers, [step.loss for step in steps], color=LINE["loss"], marker="o", markersize=4)
    upper.set_title("Loss (nats per token)", loc="left", fontweight="bold")
    lower.plot(
        numbers, [s.grad_norm_before_clip for s in steps], color=LINE["grad"], marker="o", markersize=4,
        label="before the clip",
    )  # fmt: skip
    lower.plot(
        numbers, [s.grad_norm_after_clip for s in steps], color=LINE["grad"], linestyle="--", marker="s", markersize=4,
        markerfacecolor="white", label="after",
    )  # fmt: skip
    lower.set_ylim(bottom=0)
    lower.set_title("Gradient norm", loc="left", fontweight="bold")
    lower.set_xlabel("update")
    lower.legend(frameon=False, fontsize=8)
    lower.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)  # a single step has a width too
    lower.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True, min_n_ticks=1))
    for axes in (upper, lower):
        axes.axvline(chosen.step, color=FAINT, linewidth=0.8, linestyle=":")
        axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
