"""What must exist before a command runs?

python labs/check_readiness.py
python labs/check_readiness.py --from_weight pretrain --save_dir out --plot readiness.png
"""

import sys
from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labs.figures import FAINT, INK, LINE, MODEL
from labs.lab import command_line
from minimind.config import preset as preset_named
from minimind.data.corpora import CORPORA, corpus_texts
from minimind.readiness import FIGURES, Estimate, accelerator_of, estimate, gib, needs_of, report, this_machine
from minimind.trace import Record
from minimind.trace.recorder import environment

QUESTION = "What must exist before a command runs?"

CHECK, PACE, HAS = "check ", "time of ", "free bytes of "
"""How the entries of the environment begin that say something of this machine; they are shown and never compared."""

NEEDED = "parameters weight_bytes gradient_bytes optimizer_bytes checkpoint_bytes checkpoints".split()
FOLDERS = "save_dir_bytes checkpoint_dir_bytes".split()


@dataclass
class ReadinessRecord(Record):
    """A record that also shows what it found on the machine."""

    def table(self, parameters: int = 5) -> str:
        """What the runs need, the same on every machine; then what this machine has."""
        lines = ["what each run needs, in bytes (the same on every machine):", "", _needs_table(self), ""]
        lines += [f"{name} = {self.values[name]:,}" for name in self.values if name.startswith("documents of ")]
        lines += ["", "what this machine has (not compared):", ""]
        width = max(len(name) for name in self.environment if name.startswith(CHECK)) - len(CHECK)
        for name, found in self.environment.items():
            if name.startswith(CHECK):
                lines.append(f"{name.removeprefix(CHECK):{width}}  {found}")
        lines += [f"{name}: {found}" for name, found in self.environment.items() if name.startswith(PACE)]
        return "\n".join(lines)


def run(
    preset: Literal["lesson", "lab"] = "lesson",
    from_weight: str = "none",
    data_path: str = "",
    device: str = "cpu",
    dtype: Literal["float32", "bfloat16"] = "float32",
    save_dir: str = "out",
    checkpoint_dir: str = "checkpoints",
    measure: Literal[0, 1] = 1,
) -> Record:
    """Asks this machine what a run would find, and counts what three runs need.

    Args:
        preset: the run to check.
        from_weight: 'none', or the weights that it would begin from.
        data_path: its text; empty is the preset's own.
        device: where it would compute, and where the pace is measured: 'cpu', 'cuda', 'mps', or 'auto'.
        dtype: of its forward pass.
        save_dir: folder for weights.
        checkpoint_dir: folder for resume state.
        measure: 1 makes a few updates to estimate the time of each run; 0 does not.

    Returns:
        The record. What the runs need is compared with the reference; what this machine has stands in its
        `environment`, and is not.

    Raises:
        ValueError: an argument that cannot be; the message names it.
    """
    base = preset_named(preset)
    asked = base.replace(
        from_weight=from_weight,
        data_path=data_path or base.data_path,
        device=device,
        dtype=dtype,
        save_dir=save_dir,
        checkpoint_dir=checkpoint_dir,
    )
    machine = this_machine(asked)
    findings = report(asked, machine)
    record = ReadinessRecord(
        "check_readiness",
        arguments={"preset": preset, "from_weight": from_weight, "data_path": data_path, "dtype": dtype},
        environment=environment(),
        values={"checks": [finding.name for finding in findings]},
    )
    for finding in findings:
        fix = f" -> {finding.fix}" if finding.fix else ""
        record.environment[CHECK + finding.name] = f"{finding.status}: {finding.found}{fix}"
    accelerator = accelerator_of(asked, machine)
    memory_bytes = machine.memory_bytes if accelerator is None else accelerator.memory_bytes
    record.environment[HAS + "memory"] = str(memory_bytes or "")
    record.environment[HAS + "disk"] = str(min(machine.save_disk.free_bytes, machine.checkpoint_disk.free_bytes))

    for corpus in CORPORA:
        record.values[f"documents of {corpus}"] = len(corpus_texts(corpus))
    for name, figure in FIGURES.items():
        estimated = estimate(figure, device) if measure else None
        needs = needs_of(figure) if estimated is None else estimated.needs
        for field in (*NEEDED, *FOLDERS):
            record.values[f"{name} {field}"] = int(getattr(needs, field))
        # Which attention kernel runs, and what it keeps, is the device's business.
        record.values[f"{name} memory_bytes"] = float(needs.memory_bytes)
        record.bands[f"{name} memory_bytes"] = 0.3
        if estimated is not None:
            record.environment[PACE + name] = _time(estimated, device)
    return record


def _time(estimated: Estimate, device: str) -> str:
    total_s, steps = estimated.total_s, estimated.needs.steps
    assert total_s is not None, "every figure says how many updates it makes"
    how = "made here" if estimated.measured else "from a smaller one"
    return f"about {in_words(total_s)} for {steps:,} updates on {device} ({estimated.update_s:.2g} s each, {how})"


def in_words(seconds: float) -> str:
    """A time as a person says it; an estimate has no use for more."""
    for unit, length in (("years", 365 * 86_400.0), ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} seconds"


def _needs_table(record: Record) -> str:
    lines = [f"{'':22}" + "".join(f"{name:>16}" for name in FIGURES)]
    for field in (*NEEDED, *FOLDERS):
        lines.append(f"{field:22}" + "".join(f"{record.values[f'{name} {field}']:>16,}" for name in FIGURES))
    about = [f"{float(str(record.values[f'{name} memory_bytes'])) / 2**30:.1f} GiB" for name in FIGURES]
    lines.append(f"{'memory, about':22}" + "".join(f"{each:>16}" for each in about))
    return "\n".join(lines)


def draw(record: Record) -> Figure:
    """What each run needs against what this machine has, in memory and on the disk."""
    with mpl.rc_context({"font.size": 10, "font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        figure.suptitle("What each run needs, against what this machine has free", fontsize=13, fontweight="bold")
        left, right = figure.subplots(1, 2, sharey=True)
        memory = {name: _number(record, f"{name} memory_bytes") for name in FIGURES}
        disk = {name: sum(_number(record, f"{name} {field}") for field in FOLDERS) for name in FIGURES}
        _draw_bars(left, "Memory", memory, record.environment.get(HAS + "memory", ""))
        _draw_bars(right, "Disk: weights and checkpoints", disk, record.environment.get(HAS + "disk", ""))
    return figure


def _draw_bars(axes: Axes, title: str, needed: dict[str, float], free: str) -> None:
    free_bytes = float(free) if free else None
    widest = max([*needed.values(), free_bytes or 0])
    for row, size in enumerate(needed.values()):
        fits = free_bytes is None or size <= free_bytes
        axes.barh(
            row, size, height=0.55, color=MODEL if fits else "white", edgecolor=INK if fits else LINE["loss"],
            hatch="" if fits else "///", linewidth=1,
        )  # fmt: skip
        sign = "" if free_bytes is None else "✓ fits" if fits else "✗ too large"
        # In a column of their own, where neither a bar nor the line runs through them.
        axes.text(1.0, row, f"{gib(size)}\n{sign}", transform=axes.get_yaxis_transform(), ha="right", va="center")
    if free_bytes is not None:
        axes.axvline(free_bytes, color=INK, linewidth=1.6, linestyle="--")
        axes.text(free_bytes / 1.2, -0.62, f"free here: {gib(free_bytes)}", ha="right", va="bottom", fontsize=9)
    axes.set_xscale("log")
    axes.set_xticks([2**20, 2**25, 2**30, 2**35], ["1 MiB", "32 MiB", "1 GiB", "32 GiB"])
    axes.set_xlim(2**20, widest * 100)
    axes.minorticks_off()
    axes.set_yticks(range(len(needed)), list(needed))
    axes.set_ylim(len(needed) - 0.4, -0.9)
    axes.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axes.set_xlabel("bytes, each mark 32 times the last", color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)


def _number(record: Record, name: str) -> float:
    value = record.values[name]
    assert isinstance(value, int | float), name
    return float(value)


def main() -> int:
    """Runs the lab from the command line."""
    return command_line(run, draw)


if __name__ == "__main__":
    sys.exit(main())
