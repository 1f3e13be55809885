"""One page for an instructor: what each lab asked, whether its numbers held, its table and its figure.

In: the outcomes of labs. Out: one HTML file that needs no other file, no script and no network, on screen or paper.
"""

import base64
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from pathlib import Path

from minimind.trace import Difference, Record

NAMED_FIELDS = 4
"""How many differing fields a verdict names; the page lists more."""
LISTED_DIFFERENCES = 50


@dataclass
class Outcome:
    """What came of running one lab.

    Attributes:
        lab: its name.
        question: what it asks.
        time_s: how long it ran.
        record: what it wrote down; None when it raised.
        reference: what it was compared with; None when there is nothing to compare.
        differences: from the reference.
        error: the sentence with which the lab or its figure failed.
        no_reference: the sentence that says why there is no reference.
        figure_png: its figure, when one was asked for.
        figure_text: what the figure shows, in words.
    """

    lab: str
    question: str
    time_s: float = 0.0
    record: Record | None = None
    reference: Record | None = None
    differences: list[Difference] = field(default_factory=list)
    error: str = ""
    no_reference: str = ""
    figure_png: bytes = b""
    figure_text: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        if self.error:
            return " ".join(f"failed: {self.error}".split())
        if self.no_reference:
            return " ".join(f"not compared: {self.no_reference}".split())
        if not self.differences:
            return "equal to its reference"
        fields = [difference.field for difference in self.differences]
        more = f" and {len(fields) - NAMED_FIELDS} more" if len(fields) > NAMED_FIELDS else ""
        count = "1 field differs" if len(fields) == 1 else f"{len(fields)} fields differ"
        return f"{count} from its reference: {', '.join(fields[:NAMED_FIELDS])}{more}"

    def failed(self, check: bool) -> bool:
        """Whether the lab raised or, where its numbers are checked, was not equal to a reference."""
        return bool(self.error) or (check and bool(self.differences or self.no_reference))


def report_path(folder: str | Path) -> Path:
    """Where the report in a folder stands; the folder is made if it is missing.

    Raises:
        ValueError: there is a file where the folder should be.
    """
    folder = Path(folder)
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise ValueError(f"report={str(folder)!r}: {place} is a file; name a folder to put index.html into.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "index.html"


def write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """Writes the page, whole or not at all: a page of an earlier run is replaced only by a finished one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(html_page(outcomes, datetime.now()))
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner may read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def html_page(outcomes: Sequence[Outcome], when: datetime) -> str:
    """The page as text."""
    equal = sum(_kind(outcome) == "equal" for outcome in outcomes)
    total_s = sum(outcome.time_s for outcome in outcomes)
    rows = "\n".join(
        f'<tr><td><a href="#{escape(o.lab)}">{escape(o.lab)}</a></td><td class="number">{o.time_s:.1f}</td>'
        f"<td>{_verdict(o)}</td></tr>"
        for o in outcomes
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Labs of the MiniMind Course</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>Labs of the MiniMind Course</h1>
<p>{when:%Y-%m-%d %H:%M}. {equal} of {len(outcomes)} equal to their reference records; {total_s:.1f} s in all.
Floats agree within a small relative tolerance; shapes, counts and ids must be the same.</p>
</header>
<table>
<thead><tr><th scope="col">Lab</th><th scope="col" class="number">Seconds</th><th scope="col">Verdict</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
<main>
{"".join(_section(outcome) for outcome in outcomes)}</main>
</body>
</html>
"""


def _section(outcome: Outcome) -> str:
    name = escape(outcome.lab)
    parts = [
        f'<section id="{name}">\n<h2>{escape(outcome.question)}</h2>',
        f"<p><code>python labs/{name}.py</code> ran {outcome.time_s:.1f} s: {_verdict(outcome)}</p>",
    ]
    if outcome.differences:
        listed = [f"<li>{escape(str(difference))}</li>" for difference in outcome.differences[:LISTED_DIFFERENCES]]
        if more := len(outcome.differences) - len(listed):
            listed.append(f"<li>and {more} more</li>")
        parts.append('<ul class="differences">\n' + "\n".join(listed) + "\n</ul>")
    if outcome.figure_png:
        data = base64.b64encode(outcome.figure_png).decode("ascii")
        text = escape(outcome.figure_text)
        parts.append(
            f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'
        )
    if outcome.record is not None:
        parts.append(f"<h3>What the lab printed</h3>\n<pre>{escape(outcome.record.table())}</pre>")
        parts.append(_environment(outcome.record, outcome.reference))
    return "\n".join(parts) + "\n</section>\n"


def _environment(record: Record, reference: Record | None) -> str:
    """Versions here and where the reference was recorded: what to look at first when a number differs."""
    theirs = reference.environment if reference is not None else {}
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(record.environment.get(name, ""))}</td>'
        f"<td>{escape(theirs.get(name, ''))}</td></tr>"
        for name in dict.fromkeys([*record.environment, *theirs])
    ]
    return (
        '<h3>Environment</h3>\n<table class="environment">\n'
        '<thead><tr><td></td><th scope="col">Here</th><th scope="col">Reference</th></tr></thead>\n'
        "<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"
    )


def _verdict(outcome: Outcome) -> str:
    return f'<span class="verdict {_kind(outcome)}">{escape(outcome.verdict)}</span>'


def _kind(outcome: Outcome) -> str:
    if outcome.error:
        return "error"
    return "differs" if outcome.differences or outcome.no_reference else "equal"


STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --faint: #5b6270; --page: #ffffff; --rule: #d5d9e0; --tint: #f4f5f8;
  --equal: #15803d; --differs: #b45309; --error: #b91c1c; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ee; --faint: #a3aab8; --page: #16181d; --rule: #3a3f4b; --tint: #20232b;
    --equal: #4ade80; --differs: #fbbf24; --error: #f87171; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.4rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 0.5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 0.4rem; break-after: avoid; }
header p { color: var(--faint); margin: 0 0 1.25rem; max-width: 46rem; }
section { margin-top: 2.5rem; padding-top: 2rem; border-top: 1px solid var(--rule); }
a { color: inherit; }
table { border-collapse: collapse; width: 100%; }
table.environment { width: auto; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 1.25rem 0.35rem 0;
  border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 600; overflow-wrap: anywhere; }
.equal { color: var(--equal); } .differs { color: var(--differs); } .error { color: var(--error); }
code, pre, .differences { font-size: 0.85rem;
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { background: var(--tint); padding: 0.9rem 1rem; margin: 0; border-radius: 0.4rem; overflow-x: auto;
  line-height: 1.45; }
.differences { padding-left: 1.2rem; overflow-wrap: anywhere; }
figure { margin: 1.25rem 0 0; break-inside: avoid; }
/* Figures are drawn on white, so they keep a white mount in the dark. */
img { display: block; width: 100%; height: auto; background: #ffffff; padding: 0.75rem; border: 1px solid var(--rule);
  border-radius: 0.4rem; }
figcaption { color: var(--faint); font-size: 0.9rem; margin-top: 0.4rem; }
@media print {
  @page { margin: 16mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  section { break-before: page; border-top: none; margin: 0; padding: 0; }
  pre { font-size: 7.5pt; white-space: pre-wrap; padding: 0; background: none; }
  img { padding: 0; border: none; }
}
"""
