"""One look for everything the kit displays: colours, the style sheet of the widgets, and how a number is
written.

Colours are only ever a second cue beside a word or a sign, and were chosen to differ in lightness, so that
the pages read in JupyterLab light and dark, on paper, and in black and white.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import mistune

# Readable against white and against JupyterLab's dark background; lightness falls from SKY to INK.
SKY = "#56a5d8"
BLUE = "#2f7fc1"
GREEN = "#2e8b57"
ORANGE = "#d2691e"
INK = "#333333"
GREY = "#8a8a8a"

RIGHT_SIGN = "✓"
WRONG_SIGN = "✗"
OPEN_SIGN = "○"

# The variables are JupyterLab's own, so the text follows the theme; the fallback after the comma serves other
# pages.
STYLE_SHEET = f"""<style>
.course-kit {{ border-left: 4px solid {BLUE}; padding: 2px 12px 8px; margin: 4px 0; max-width: 62em;
  overflow: visible; color: var(--jp-content-font-color1, inherit); }}
.course-quiz, .course-recall {{ border-left-style: double; border-left-width: 6px; }}
.course-recall {{ border-left-color: {GREEN}; }}
.course-exercise {{ border-left-color: {ORANGE}; }}
.course-scrub {{ border-left-color: {GREY}; }}
.course-scrub, .course-reveal {{ max-width: none; }}
.course-kit .widget-html, .course-kit .widget-htmlmath {{ height: auto; overflow: visible; }}
.course-kit .widget-html-content, .course-kit .widget-htmlmath-content {{ line-height: 1.5;
  font-size: var(--jp-content-font-size1, 14px); white-space: normal; overflow: visible; }}
.course-kit .widget-html-content, .course-kit .widget-html-content p, .course-kit .widget-html-content li,
.course-kit .widget-html-content td, .course-kit .widget-html-content th, .course-kit .widget-radio-box label,
.course-kit .widget-label {{ color: var(--jp-content-font-color1, inherit); }}
.course-kit p, .course-kit pre {{ margin: 0.3em 0; }}
.course-kit code {{ background: var(--jp-layout-color2, rgba(128, 128, 128, 0.18)); padding: 0 3px;
  color: inherit; font-family: var(--jp-code-font-family, monospace); font-size: 0.92em; }}
.course-kit pre code {{ display: block; padding: 6px 8px; line-height: 1.35; white-space: pre; overflow-x:
auto; }} .course-kit table {{ border-collapse: collapse; margin: 4px 0; }}
.course-kit th, .course-kit td {{ padding: 2px 8px; border-bottom: 1px solid {GREY}; line-height: 1.4; }}
.course-kit .widget-radio {{ width: auto; height: auto; margin: 0; }}
.course-kit .widget-radio-box {{ max-width: none; padding: 0; }}
.course-kit .widget-radio-box label {{ height: auto; line-height: 1.5; white-space: normal; margin: 2px 0;
  font-size: var(--jp-content-font-size1, 14px); display: flex; align-items: flex-start; gap: 8px; }}
.course-kit .widget-radio-box input {{ order: -1; margin: 4px 2px 0; flex: none; position: static; }}
.course-kit .widget-button {{ width: auto; align-self: flex-start; }}
.course-kit .widget-image {{ max-width: 100%; height: auto; flex: 0 1 auto; object-fit: contain; }}
.course-scrub .widget-hbox {{ flex-flow: row wrap; align-items: flex-start; gap: 0 16px; overflow: visible; }}
.course-kit .widget-button:focus-visible, .course-kit input:focus-visible {{ outline: 2px solid {ORANGE}; }}
.course-verdict {{ border-left: 4px solid {GREY}; padding: 0 10px; margin: 6px 0; }}
.course-right {{ border-color: {GREEN}; }}
.course-wrong {{ border-color: {ORANGE}; border-left-style: dashed; }}
.course-open {{ border-left-style: dotted; }}
</style>"""

_render = mistune.create_markdown(escape=True, plugins=["table", "math"])


def to_html(markdown: str) -> str:
    """Turns the Markdown of a question or a reason into HTML for a widget; raw HTML is shown as typed."""
    return cast(str, _render(markdown)).strip()


def verdict_html(kind: str, markdown: str) -> str:
    """Wraps feedback in the bar of its kind.

    Args:
        kind: "right" (solid bar), "wrong" (dashed) or "open" (dotted).
        markdown: What to say; it starts with the word that the bar stands for.
    """
    assert kind in ("right", "wrong", "open"), kind
    return f'<div class="course-verdict course-{kind}">{to_html(markdown)}</div>'


def plain(markdown: str) -> str:
    """Drops the marks of Markdown, for the label of a radio button, which shows no markup."""
    return markdown.replace("**", "").replace("`", "")


def lettered(options: Sequence[str]) -> str:
    """A Markdown list of options under their letters."""
    return "\n".join(f"- **{letter(index)}.** {option}" for index, option in enumerate(options))


def letter(index: int) -> str:
    """The letter of an option: A, B, C and so on."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[index]


def code_span(text: str) -> str:
    """Quotes one line of any text as Markdown code, also when it holds backticks."""
    text = " ".join(text.split())
    if not text:
        return "(no text)"
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {text} {fence}"


def code_block(text: str, language: str = "") -> str:
    """Fences text as a Markdown code block; the fence is longer than any run of backticks inside."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def number(value: float | int | bool | str) -> str:
    """Writes a number as the course prints it.

    Integers are exact, with commas. Floats have four significant digits, which is what one training step
    reproduces on every CPU; zeros are cut only where the value really is that short, so 0.1 stays 0.1 and
    1.1000004 is 1.100.
    """
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    short = f"{value:.4g}"
    if float(short) == value:
        return short if not short.lstrip("-").isdigit() else short + ".0"
    if 1000 <= abs(value) < 1e6:
        return f"{value:.1f}"
    return f"{value:#.4g}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lays out a Markdown table: the first column, of text, stands left, and the others stand right."""
    lines = ["| " + " | ".join(header) + " |", "|:---|" + "---:|" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
