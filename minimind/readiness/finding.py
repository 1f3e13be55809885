"""One thing that was looked at: what was found, what is needed, and the command that mends it."""

import dataclasses
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from minimind.config import PRESETS, RunConfig, preset

Status = Literal["ok", "degraded", "missing"]
"""ok; degraded: the run works, but slower or with other digits than the text shows; missing: the run cannot begin."""


FOUND_WIDTH = 44
"""What was found and is longer than so many characters has a line of its own."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        name: of the check, the same on every machine: "package torch", "disk save_dir".
        found: what is there, in words.
        needed: what the run asks for, in words.
        status: "ok", "degraded" or "missing".
        fix: the one command that mends it, to be run in the course's folder; "" when it is ok.
    """

    name: str
    found: str
    needed: str
    status: Status = "ok"
    fix: str = ""

    def __post_init__(self) -> None:
        assert (self.status == "ok") == (not self.fix), f"{self.name}: whatever is not ok comes with its command"


def is_ready(findings: Iterable[Finding]) -> bool:
    """Whether a run could begin: nothing is missing, though something may be degraded."""
    return all(finding.status != "missing" for finding in findings)


def as_text(findings: Sequence[Finding], everything: bool = False) -> str:
    """The findings as lines for a person: the status in words, and under each that is not ok its command.

    Args:
        findings: in the order to show them.
        everything: a line for each package too, also for those that are as they should be.
    """
    packages = [f for f in findings if f.name.startswith("package ") and f.status == "ok"]
    shown = [f for f in findings if everything or f not in packages]
    if packages and not everything:
        summary = Finding("packages", f"{len(packages)} as pinned", "the pins of constraints.txt")
        shown.insert(next((i for i, f in enumerate(shown) if f.name != "python"), len(shown)), summary)
    name_width = max((len(f.name) for f in shown), default=0)
    short = [len(f.found) for f in shown if len(f.found) <= FOUND_WIDTH]
    lines = []
    for finding in shown:
        left = f"{finding.status:8}  {finding.name:{name_width}}  "
        needed = f"(needed: {finding.needed})"
        if len(finding.found) <= FOUND_WIDTH:
            lines.append(f"{left}{finding.found:{max(short)}}  {needed}")
        else:  # a whole sentence
            lines += [left + finding.found, " " * len(left) + needed]
        if finding.fix:
            lines.append(" " * len(left) + f"-> {finding.fix}")
    return "\n".join(lines)


def as_command(run: RunConfig, stage: str = "pretrain") -> str:
    """The shortest command that means this run.

    Args:
        run: the run.
        stage: the command: a key of `minimind.config.STAGES`.
    """

    def options(base: RunConfig) -> list[str]:
        defaults = dataclasses.asdict(base)
        changed = {key: value for key, value in dataclasses.asdict(run).items() if value != defaults[key]}
        return [word for key, value in changed.items() for word in (f"--{key}", str(value))]

    plain = options(preset("lesson", stage))
    if stage != "pretrain":
        return shlex.join(["minimind", stage, *plain])
    named = [["--preset", name, *options(each)] for name, each in PRESETS.items() if name != "lesson"]
    return shlex.join(["minimind", stage, *min([plain, *named], key=len)])


def gib(size_bytes: float) -> str:
    """A size as memory is counted, in units of 1024."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes:.0f} bytes"
