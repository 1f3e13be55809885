"""Looking at a trace: the flow of one step, and a scrubber over all of them."""

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from course.kit.answers import unattended
from course.kit.output import container, show, show_figure, to_png
from course.kit.style import BLUE, INK, markdown_table, number, to_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from minimind.trace.record import Record, StepRecord

TABLE_PARAMETERS = 5
FIGURE_PARAMETERS = 24


def flow(record: "Record", step: int = -1) -> None:
    """Displays the recorded step as a flow from text to moved parameters, and prints the numbers in the
    figure.

    Raises:
        ValueError: The record has no steps.
    """
    _require_steps(record)
    from labs.figures import draw_step

    show_figure(draw_step(record, step), plain="flow of one training step")
    shown = record.steps[step]
    moved, distance = _moved_most(shown)
    for name, shape in record.shapes.items():
        print(f"{name}.shape = {tuple(shape)}")
    print(f"loss = {number(shown.loss)}")
    print(f"learning_rate = {number(shown.learning_rate)}")
    print(f"grad_norm_before_clip = {number(shown.grad_norm_before_clip)}")
    print(f"grad_norm_after_clip = {number(shown.grad_norm_after_clip)}")
    print(f"moved most: {moved} (delta_rms = {number(distance)})")


class Scrubber:
    """A slider over the steps of a record, with a table and a picture of each. Made by `scrub`."""

    def __init__(self, record: "Record") -> None:
        _require_steps(record)
        self.record = record
        self._pictures: dict[int, bytes] = {}
        total = len(record.steps)
        self.label = widgets.Label()
        self.slider = widgets.IntSlider(
            value=1, min=1, max=max(total, 2), description="Step", disabled=total == 1, readout=False
        )
        self.table = widgets.HTMLMath()
        self.picture = widgets.Image(format="png", width=400)
        self.box = container("scrub", widgets.HBox([self.slider, self.label]), widgets.HBox([self.table, self.picture]))
        self.slider.observe(lambda change: self.go_to(change["new"]), names="value")
        self.go_to(1)

    def go_to(self, position: int) -> None:
        """Shows the step at a position, counted from 1."""
        self.picture.value = self._picture(position)
        self.table.value = to_html(step_markdown(self.record.steps[position - 1]))
        # Last, since it is what tells a reader (and a test) that the rest is there.
        self.label.value = f"step {position} of {len(self.record.steps)}"

    def _picture(self, position: int) -> bytes:
        if position not in self._pictures:
            self._pictures[position] = to_png(draw_movement(self.record, position))
        return self._pictures[position]


def scrub(record: "Record") -> None:
    """Displays a step scrubber: a slider over the steps, and for each what it measured and moved.

    The left and right arrow keys move the slider. In an unattended run, and wherever no kernel runs, a table over
    all steps stands in its place.

    Raises:
        ValueError: The record has no steps.
    """
    _require_steps(record)
    if unattended():
        show(steps_markdown(record), plain="table of steps")
        show_figure(draw_movement(record, len(record.steps)), plain="how far each parameter moved in the last step")
    else:
        show(steps_markdown(record), plain="step scrubber", widget=Scrubber(record).box)


def step_markdown(step: "StepRecord") -> str:
    """Two tables on one step: what it measured, and the parameters that moved most."""
    measured = markdown_table(
        ["measured", f"in update {step.step}"],
        [
            ["loss", number(step.loss)],
            ["learning rate", number(step.learning_rate)],
            ["gradient norm before the clip", number(step.grad_norm_before_clip)],
            ["gradient norm after the clip", number(step.grad_norm_after_clip)],
            ["tokens trained", number(step.tokens)],
        ],
    )
    moved = markdown_table(
        ["moved most", "delta rms", "gradient norm", "update ratio"],
        [
            [f"`{name}`", number(p.delta_rms), number(p.grad_norm), number(p.update_ratio)]
            for name, p in _by_movement(step)[:TABLE_PARAMETERS]
        ],
    )
    return f"{measured}\n\n{moved}"


def steps_markdown(record: "Record") -> str:
    """One table over all steps of a record."""
    rows = []
    for step in record.steps:
        name, distance = _moved_most(step)
        rows.append(
            [
                str(step.step),
                number(step.loss),
                number(step.learning_rate),
                number(step.grad_norm_before_clip),
                number(step.grad_norm_after_clip),
                name if " " in name else f"`{name}`",
                number(distance),
            ]
        )
    header = [
        "update",
        "loss",
        "learning rate",
        "grad norm before",
        "after the clip",
        "moved most",
        "its delta rms",
    ]
    return markdown_table(header, rows)


def draw_movement(record: "Record", position: int) -> "Figure":
    """Bars of how far each parameter moved in one step, on one axis for all steps, so that they compare."""
    from matplotlib.figure import Figure

    step = record.steps[position - 1]
    largest = max(p.delta_rms for each in record.steps for p in each.parameters.values())
    names = list(step.parameters)
    if len(names) > FIGURE_PARAMETERS:
        kept = {name for name, _ in _by_movement(step)[:FIGURE_PARAMETERS]}
        names = [name for name in names if name in kept]
    most = _by_movement(step)[0][0]
    figure = Figure(figsize=(5.0, 0.9 + 0.19 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        [name.removeprefix("model.").removesuffix(".weight") for name in names],
        [step.parameters[name].delta_rms for name in names],
        color=[INK if name == most else BLUE for name in names],
    )
    axes.invert_yaxis()  # in the order of the model, first layer on top
    axes.set_xlim(0, largest * 1.05 or 1)
    axes.margins(y=0.01)
    axes.tick_params(labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter("{x:g}")  # no offset in a corner, which is easily missed
    axes.set_xlabel("delta rms of the parameter (dark: moved most)", fontsize=8)
    left_out = len(step.parameters) - len(names)
    note = f", {left_out} that moved less left out" if left_out else ""
    axes.set_title(f"Where update {step.step} moved the model{note}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _by_movement(step: "StepRecord") -> list[tuple[str, Any]]:
    return sorted(step.parameters.items(), key=lambda item: -item[1].delta_rms)


def _moved_most(step: "StepRecord") -> tuple[str, float]:
    """The parameter that moved most, and its delta rms.

    When all moved alike, as in AdamW's first update, the order among them is rounding, which differs between CPUs.
    """
    ranked = _by_movement(step)
    furthest, least = ranked[0][1].delta_rms, ranked[-1][1].delta_rms
    alike = len(ranked) > 1 and furthest - least <= 1e-3 * furthest
    return ("all alike" if alike else ranked[0][0]), furthest


def _require_steps(record: "Record") -> None:
    if not record.steps or not all(step.parameters for step in record.steps):
        raise ValueError(
            f"The record of {record.lab!r} has no steps with parameters to show; record at least one training step."
        )
