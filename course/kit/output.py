"""How the kit puts things on the page.

One output carries both lives of an item: the widget, where a kernel runs, and its static twin in Markdown,
which every other reader (GitHub, paper, a notebook without a kernel) shows instead. Nothing here uses
ipywidgets' `Output`, display ids, or anything else that differs from run to run.
"""

import base64
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from IPython.core.getipython import get_ipython
from IPython.display import display
from IPython.utils.capture import capture_output
from PIL import Image

from course.kit.answers import ANSWERS
from course.kit.style import (
    STYLE_SHEET,
    code_block,
    code_span,
    letter,
    lettered,
    plain,
    to_html,
    verdict_html,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_DPI = 120  # a quarter above the 96 of a screen: sharp enough, and within the size limit of an output


class Silent:
    """A value whose cell shows nothing more than what the call that made it has already displayed."""

    def _ipython_display_(self) -> None:
        pass


def show(markdown: str, *, plain: str, widget: Any | None = None) -> None:
    """Displays Markdown, or a widget with that Markdown as its twin; prints the Markdown outside of IPython.

    What has to be said about saving answers stands under it.

    Args:
        markdown: The static twin.
        plain: A few words that name the item, for readers that show neither.
        widget: The ipywidget to show where a kernel runs.
    """
    if get_ipython() is None:
        print(markdown)
    else:
        bundle: dict[str, Any] = dict(widget._repr_mimebundle_()) if widget is not None else {}
        display({**bundle, "text/markdown": markdown, "text/plain": plain}, raw=True)
    if news := ANSWERS.news():
        show(f"*{news}*", plain="about saving your answers")


def show_figure(figure: "Figure", *, plain: str) -> None:
    """Displays a matplotlib figure as a PNG on white, readable in both themes."""
    if get_ipython() is None:
        print(f"[{plain}]")
        return
    width, _ = figure.get_size_inches()
    display(
        {"image/png": base64.b64encode(to_png(figure)).decode("ascii"), "text/plain": plain},
        raw=True,
        metadata={"image/png": {"width": round(float(width) * 96)}},
    )


def to_png(figure: "Figure") -> bytes:
    """Renders a figure to PNG bytes, which matplotlib does with Agg whatever backend the notebook has."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=PICTURE_DPI, facecolor="white")
    # Few colours: 256 of them look the same and take a third of the bytes, which a notebook stores.
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def container(kind: str, *children: Any) -> Any:
    """A VBox in the kit's look, with the css class `course-<kind>` that browser tests look for."""
    box = widgets.VBox([widgets.HTML(STYLE_SHEET, layout=widgets.Layout(display="none")), *children])
    box.add_class("course-kit")
    box.add_class(f"course-{kind}")
    return box


def text(markdown: str) -> Any:
    """A widget that shows Markdown, formulas included."""
    return widgets.HTMLMath(to_html(markdown))


def radio_buttons(options: Sequence[str]) -> list[Any]:
    """Radio buttons for options in Markdown, none chosen; the last widget holds the index of the choice.

    A label shows no markup, so options with formulas stand in a list above, and the labels are their letters.
    """
    formulas = any("$" in option for option in options)
    labels = [
        (letter(index) if formulas else f"{letter(index)}. {plain(option)}", index)
        for index, option in enumerate(options)
    ]
    above = [text(lettered(options))] if formulas else []
    return [*above, widgets.RadioButtons(options=labels, value=None)]


def tell(area: Any, kind: str, markdown: str) -> None:
    """Puts feedback of a kind ("right", "wrong", "open") into a text widget."""
    area.value = verdict_html(kind, markdown)


def tell_news(area: Any) -> None:
    """Adds to a text widget what has to be said about saving answers: a button has no cell to say it in."""
    if news := ANSWERS.news():
        area.value += verdict_html("open", news)


def present(value: Any) -> None:
    """Displays the result of a cell or a reveal in the way that suits its type.

    Text is Markdown, a matplotlib figure a picture, an object with `table()` (a Record) its table; None shows
    nothing, and everything else is left to IPython.
    """
    if value is None:
        return
    if isinstance(value, str):
        show(value, plain="result")
    elif hasattr(value, "savefig"):
        show_figure(value, plain="figure")
    elif callable(getattr(value, "table", None)):
        show(code_block(value.table()), plain="table")
    elif get_ipython() is None:
        print(repr(value))
    elif isinstance(value, bool | int | float):
        show(code_span(repr(value)), plain="result")
    else:
        display(value)


def capture(work: Callable[[], None]) -> list[Any]:
    """Runs work that prints and displays, and returns what it showed as widgets, in order of kind: printed
    text first.

    A button's callback has no cell to print into; this gives it one.
    """
    with capture_output() as captured:
        work()
    pieces = [widgets.HTML(to_html(code_block(captured.stdout)))] if captured.stdout.strip() else []
    return pieces + [_as_widget(output.data) for output in captured.outputs]


def _as_widget(data: dict[str, Any]) -> Any:
    if "image/png" in data:
        png = data["image/png"]
        return widgets.Image(value=base64.b64decode(png) if isinstance(png, str) else png, format="png")
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return widgets.HTML(data[kind])
    if "text/markdown" in data:
        return text(data["text/markdown"])
    return widgets.HTML(to_html(code_block(data.get("text/plain", ""))))
