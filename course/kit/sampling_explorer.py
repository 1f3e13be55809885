"""One next-token distribution to touch: what temperature, top-k and top-p make of it.

All probabilities and draws come from `minimind.serve.sampling`, the functions that the model itself is sampled with.
The picture is SVG, so that the reader's own fonts write the tokens, Chinese included.
"""

import html
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ipywidgets as widgets

from course.kit.answers import unattended
from course.kit.output import container, show
from course.kit.style import BLUE, GREY, ORANGE, code_span, markdown_table, number, to_html

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast

SHOWN_TOKENS = 12
DRAWN_TOKENS = 20
HIGHEST_TEMPERATURE, HIGHEST_TOP_K = 2.0, 50
"""Where the sliders end, unless the call begins further out."""

# Control characters have no shape on the page, and a space must be seen.
_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
_LABEL_CHARACTERS = 16


@dataclass(frozen=True)
class Setting:
    """What is done to the logits before a token is drawn; see `minimind.serve.sampling.sample`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:g}"] if self.temperature != 1 else []
        parts += [f"top-k {self.top_k}"] if self.top_k else []
        parts += [f"top-p {self.top_p:g}"] if self.top_p != 1 else []
        return ", ".join(parts) or "nothing changed"


TWIN_SETTINGS = (Setting(), Setting(temperature=0.5), Setting(temperature=1.5), Setting(top_k=3), Setting(top_p=0.9))
"""What the static twin shows; the setting of the call comes last when it is none of these."""


@dataclass(frozen=True)
class Filtered:
    """A distribution after the filters.

    Attributes:
        probabilities: (V,), they sum to 1.
        kept: (V,) whether the filters left a token; at temperature 0 they leave one.
        entropy: in nats; 0 when one token is certain.
    """

    probabilities: "Tensor"
    kept: "Tensor"
    entropy: float

    @property
    def left(self) -> int:
        """How many tokens the filters left."""
        return int(self.kept.sum())


class Distribution:
    """The logits of one position, and what the package's sampling makes of them.

    Args:
        logits: (V,) of one position, any float type.
        tokenizer: says how a token reads.
        chosen: an id to mark, such as the token that the model chose here.

    Raises:
        ValueError: the logits are not those of one position, or hold NaN; or `chosen` is none of their tokens.
    """

    def __init__(self, logits: "Tensor", tokenizer: "PreTrainedTokenizerFast", chosen: int | None = None) -> None:
        if logits.dim() != 1 or len(logits) == 0:
            raise ValueError(
                f"logits has the shape {tuple(logits.shape)}; pass those of one position, one for each token of the "
                "vocabulary, such as logits[0, -1]."
            )
        if bool(logits.isnan().any()):
            raise ValueError(
                f"{int(logits.isnan().sum())} of the {len(logits):,} logits are NaN; no token can be drawn."
            )
        if chosen is not None and not 0 <= chosen < len(logits):
            raise ValueError(f"chosen={chosen} is none of the {len(logits):,} tokens; pass an id from 0.")
        self.logits = logits.detach().cpu().float()
        self.chosen = chosen
        likeliest = self.logits.sort(descending=True, stable=True).indices[:SHOWN_TOKENS].tolist()
        self.ids: list[int] = likeliest if chosen is None or chosen in likeliest else [*likeliest, chosen]
        self.names = [readable_token(tokenizer, token_id) for token_id in self.ids]
        self.others = len(self.logits) - len(self.ids)

    def after(self, setting: Setting) -> Filtered:
        """What the filters of a setting leave.

        Raises:
            ValueError: the setting cannot be; the sentence names the field.
        """
        from minimind.serve.sampling import divide_by_temperature, keep_top_k, keep_top_p, next_token_probabilities

        logits = self.logits[None]
        temperature, top_k, top_p = setting.temperature, setting.top_k, setting.top_p
        probabilities = next_token_probabilities(logits, temperature, top_k, top_p)[0]
        kept = probabilities > 0
        if temperature:
            # Asked of the logits: a probability may be too small for a float, and its token is not filtered away.
            kept = keep_top_p(keep_top_k(divide_by_temperature(logits, temperature), top_k), top_p)[0].isfinite()
        present = probabilities[probabilities > 0].double()
        return Filtered(probabilities, kept, abs(float(-(present * present.log()).sum())))

    def of_rows(self, values: "Tensor") -> list[float]:
        """Of one value a token (V,), those of the shown tokens, then the sum of all others."""
        shown = values[self.ids].double()
        return [*shown.tolist(), max(0.0, float(values.double().sum() - shown.sum()))]

    def draw(self, setting: Setting, seed: int, count: int = DRAWN_TOKENS) -> list[int]:
        """Draws tokens one by one, each from the whole distribution; the same ones at the same seed."""
        import torch

        from minimind.serve.sampling import sample

        generator = torch.Generator().manual_seed(seed)
        rows = self.logits.expand(count, -1)
        return sample(rows, setting.temperature, setting.top_k, setting.top_p, generator).tolist()

    def row_names(self, quote: Callable[[str], str] = str) -> list[str]:
        """The shown tokens as they read, each passed through `quote`, then what all others are called."""
        marks = [" (chosen)" if token_id == self.chosen else "" for token_id in self.ids]
        names = [quote(name) + mark for name, mark in zip(self.names, marks, strict=True)]
        return [*names, f"{self.others:,} others"]

    def tally(self, drawn: Sequence[int]) -> list[int]:
        """How often each shown token was drawn, then all others together."""
        counts = Counter(drawn)
        shown = [counts[token_id] for token_id in self.ids]
        return [*shown, len(drawn) - sum(shown)]


class SamplingExplorer:
    """Sliders over one distribution, its picture, and a button that draws from it. Made by `explore_sampling`."""

    def __init__(self, distribution: Distribution, setting: Setting, prompt: str) -> None:
        self.distribution = distribution
        self.own = distribution.after(Setting())
        self.presses = 0
        size = len(distribution.logits)
        style, layout = {"description_width": "7em"}, widgets.Layout(width="28em")
        self.temperature = widgets.FloatSlider(
            value=setting.temperature, min=0, max=max(HIGHEST_TEMPERATURE, setting.temperature), step=0.05,
            description="temperature", readout_format=".2f", style=style, layout=layout,
        )  # fmt: skip
        self.top_k = widgets.IntSlider(
            value=min(setting.top_k, size), min=0, max=max(min(HIGHEST_TOP_K, size), min(setting.top_k, size)),
            description="top-k (0: all)", style=style, layout=layout,
        )  # fmt: skip
        self.top_p = widgets.FloatSlider(
            value=setting.top_p, min=min(0.05, setting.top_p), max=1, step=0.05,
            description="top-p (1: all)", readout_format=".2f", style=style, layout=layout,
        )  # fmt: skip
        self.button = widgets.Button(description=f"Draw {DRAWN_TOKENS}")
        self.drawn = widgets.HTML()
        self.said = widgets.HTML()
        self.picture = widgets.HTML()
        sliders = [self.temperature, self.top_k, self.top_p]
        self.box = container(
            "sampling",
            widgets.HTML(to_html(_lead(distribution, prompt))),
            *sliders,
            self.said,
            self.picture,
            widgets.HBox([self.button, self.drawn]),
        )
        for slider in sliders:
            slider.observe(lambda change: self.refresh(), names="value")
        self.button.on_click(lambda button: self.draw())
        self.refresh()

    @property
    def setting(self) -> Setting:
        """What the sliders say; steps of 0.05 add up to a little more or less, which is rounded away."""
        return Setting(round(self.temperature.value, 4), self.top_k.value, round(self.top_p.value, 4))

    def refresh(self) -> None:
        """Shows the distribution at the sliders' setting; what was drawn at another one is put away."""
        self.drawn.value = to_html("Each draw takes one token from the filled bars.")
        self._show([])

    def draw(self) -> None:
        """Draws from what the filters leave, at a new seed each time."""
        seed, self.presses = self.presses, self.presses + 1
        drawn = self.distribution.draw(self.setting, seed)
        kinds = len(set(drawn))
        self._show(drawn)
        self.drawn.value = to_html(
            f"{len(drawn)} draws at seed {seed}: {kinds} different {'token' if kinds == 1 else 'tokens'}."
        )

    def _show(self, drawn: Sequence[int]) -> None:
        after = self.distribution.after(self.setting)
        self.picture.value = picture(self.distribution, self.own, after, drawn)
        # Two short paragraphs, which take two lines whatever the numbers are.
        self.said.value = to_html(
            f"**{after.left:,}** of {len(self.distribution.logits):,} tokens are left.\n\n"
            f"Entropy: **{_nats(after.entropy)}** nats (before the filters {_nats(self.own.entropy)}), as uncertain as "
            f"a fair choice among {number(math.exp(after.entropy))} tokens."
        )


def explore_sampling(
    logits: "Tensor",
    tokenizer: "PreTrainedTokenizerFast",
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    prompt: str = "",
    chosen: int | None = None,
) -> None:
    """Displays one next-token distribution with sliders for temperature, top-k and top-p.

    The arrow keys move a slider. In an unattended run, and wherever no kernel runs, a table over a few settings stands
    in its place.

    Args:
        logits: (V,) of one position.
        tokenizer: the one that the model was trained with.
        temperature: where its slider begins; 0 always takes the likeliest token.
        top_k: where its slider begins; 0 keeps all tokens.
        top_p: where its slider begins; 1 keeps all tokens.
        prompt: the text that the distribution follows on, shown above it.
        chosen: an id to mark, such as the token that the model chose here.

    Raises:
        ValueError: the logits are not those of one position, or the setting cannot be; the sentence names the field.
    """
    from minimind.serve.sampling import require_sampling

    require_sampling(temperature, top_k, top_p)
    distribution, setting = Distribution(logits, tokenizer, chosen), Setting(temperature, top_k, top_p)
    twin = f"{_lead(distribution, prompt)}\n\n{settings_markdown(distribution, setting)}"
    explorer = None if unattended() else SamplingExplorer(distribution, setting, prompt).box
    show(twin, plain="sampling explorer", widget=explorer)


def settings_markdown(distribution: Distribution, setting: Setting) -> str:
    """The static twin: a column for each of a few settings, a row for each of the likeliest tokens."""
    settings = [*TWIN_SETTINGS, *([] if setting in TWIN_SETTINGS else [setting])]
    results = [distribution.after(each) for each in settings]
    names = distribution.row_names(lambda name: code_span(name).replace("|", "\\|"))
    columns = [
        [
            _say(value, kept)
            for value, kept in zip(
                distribution.of_rows(each.probabilities), distribution.of_rows(each.kept), strict=True
            )
        ]
        for each in results
    ]
    rows = [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]
    rows.append(["**tokens left**", *(f"{result.left:,}" for result in results)])
    rows.append(["**entropy** (nats)", *(_nats(result.entropy) for result in results)])
    return markdown_table(["token", *(str(each) for each in settings)], rows)


def picture(distribution: Distribution, before: Filtered, after: Filtered, drawn: Sequence[int]) -> str:
    """Bars of the shown tokens as SVG: an outline before the filters, filled after them; and what was drawn."""
    tally = distribution.tally(drawn)
    rows = zip(
        distribution.row_names(),
        distribution.of_rows(before.probabilities),
        distribution.of_rows(after.probabilities),
        distribution.of_rows(after.kept),
        tally,
        strict=True,
    )
    parts = [
        _write(_BARS - 10, 15, "token", "end"),
        _write(_BARS, 15, "probability, from 0 to 1"),
        _write(_NUMBERS, 15, "before → after"),
        _write(_TALLY, 15, f"drawn, of {len(drawn)}" if drawn else "drawn"),
    ]
    for row, (name, old, new, kept, times) in enumerate(rows):
        y = _HEAD + row * _ROW
        bars = (
            f'<rect x="{_BARS}" y="{y + 4}" width="{new * _WIDE:.2f}" height="{_ROW - 8}" fill="{BLUE}"/>'
            f'<rect x="{_BARS}" y="{y + 2}" width="{max(1.0, old * _WIDE):.2f}" height="{_ROW - 4}" fill="none" '
            'stroke="currentColor" stroke-width="1.2"/>'
        )
        label = _write(_BARS - 10, y + 15, _cut(name), "end")
        numbers = _write(_NUMBERS, y + 15, f"{old:.3f} → {f'{new:.3f}' if kept else 'out'}")
        parts.append(f'<g opacity="{1 if kept else 0.6}">{label}{bars}{numbers}</g>')
        parts += [
            f'<circle cx="{_TALLY + 3 + 6 * dot}" cy="{y + 11}" r="2.4" fill="{ORANGE}"/>' for dot in range(times)
        ]
        parts.append(_write(_END, y + 15, f"{times or ''}", "end"))
    height = _HEAD + len(tally) * _ROW + 2
    axis = "".join(
        f'<line x1="{x}" x2="{x}" y1="{_HEAD}" y2="{height}" stroke="{GREY}" stroke-dasharray="{dashes}"/>'
        for x, dashes in ((_BARS, "none"), (_BARS + _WIDE, "2 3"))
    )
    return (
        f'<svg viewBox="0 0 {_END + 4} {height}" role="img" aria-label="bars of the likeliest tokens" '
        f'style="display: block; width: 100%; max-width: 58em" font-size="13" fill="currentColor">'
        f"{axis}{''.join(parts)}</svg>"
    )


# The picture's columns and rows, in units of its own.
_BARS, _WIDE, _NUMBERS, _TALLY, _END = 170, 330, 512, 640, 786
_HEAD, _ROW = 24, 22


def _write(x: int, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def readable_token(tokenizer: "PreTrainedTokenizerFast", token_id: int) -> str:
    """How a token reads when nothing may stay unseen: "␣the", "↵", and <E4><BD> for bytes that are no character."""
    from minimind.serve.stream import token_bytes

    stands_for = token_bytes(tokenizer, token_id)
    if not stands_for:
        return f"id {token_id}"
    # A byte that is part of no character becomes one code point of its own.
    return "".join(_readable(character) for character in stands_for.decode("utf-8", errors="surrogateescape"))


def _readable(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:
        return f"<{ord(character) - 0xDC00:02X}>"
    if character not in _VISIBLE and unicodedata.category(character)[0] in "CZM":
        return "".join(f"<{byte:02X}>" for byte in character.encode())
    return _VISIBLE.get(character, character)


def _lead(distribution: Distribution, prompt: str) -> str:
    after = f" after {code_span(prompt)}" if prompt else ""
    return f"**What comes next{after}?** {len(distribution.logits):,} tokens, each with its probability."


def _cut(name: str) -> str:
    return name if len(name) <= _LABEL_CHARACTERS else name[: _LABEL_CHARACTERS - 1] + "…"


def _say(probability: float, kept: float) -> str:
    """Three digits, which hold on every machine; what was filtered away is a dash."""
    if not kept:
        return "-"
    return f"{probability:#.3g}" if probability >= 1e-3 else "< 0.001"


def _nats(entropy: float) -> str:
    """Four digits; how nearly certain a token is no longer shows, since its last digits are rounding."""
    return number(entropy) if entropy == 0 or entropy >= 1e-3 else "< 0.001"
