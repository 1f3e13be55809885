"""Is this machine ready for a run, and what would the run need? What `minimind check` says, and what a lesson asks.

A `RunConfig` goes in; findings come out, one for each thing that must exist before the first step, each with the
command that mends it. Nothing is trained, written or fetched; `estimate` alone makes a few updates on random ids, to
learn this machine's pace.
"""

from minimind.readiness.checks import accelerator_of, report
from minimind.readiness.finding import Finding, Status, as_command, as_text, gib, is_ready
from minimind.readiness.machine import Accelerator, Disk, Machine, this_machine
from minimind.readiness.needs import Needs, needs_of
from minimind.readiness.pace import FIGURES, Estimate, estimate

__all__ = [
    "FIGURES",
    "Accelerator",
    "Disk",
    "Estimate",
    "Finding",
    "Machine",
    "Needs",
    "Status",
    "accelerator_of",
    "as_command",
    "as_text",
    "estimate",
    "gib",
    "is_ready",
    "needs_of",
    "report",
    "this_machine",
]
