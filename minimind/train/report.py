"""What a run says while it runs: a progress bar for people, one JSON line an update for programs."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tqdm.auto import tqdm

from minimind.train.loop import StepMetrics

Say = Callable[[str], None]


class MetricsFile:
    """`metrics.jsonl`: one line an update, and one for each validation.

    Args:
        path: of the file.
        resume_step: 0 begins a new file; otherwise lines after that step are dropped, since those updates will be
            made again.
    """

    def __init__(self, path: Path, resume_step: int = 0):
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = []
        if resume_step and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                # A kill can cut the last line short; the update it spoke of comes again.
                if line.endswith("\n") and json.loads(line)["step"] <= resume_step:
                    kept.append(line)
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(kept)
        self._file.flush()

    def write(self, **values: float | int) -> None:
        """Appends one line; NaN is refused."""
        self._file.write(json.dumps(values, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Progress:
    """A bar with step, loss, gradient norm, rate and time left.

    Args:
        total_steps: of the whole run.
        first_step: updates already made.
        metrics: where each update's numbers go.
        interval: updates between two refreshes of the numbers.
        show: whether to draw the bar.
        say: takes each line of output.
    """

    def __init__(self, total_steps: int, first_step: int, metrics: MetricsFile, interval: int, show: bool, say: Say):
        self._metrics, self._interval, self._say = metrics, interval, say
        self._bar = tqdm(
            total=total_steps,
            initial=first_step,
            unit="step",
            disable=not show,
            bar_format="{desc} {percentage:3.0f}%|{bar:24}| {n_fmt}/{total_fmt} [left {remaining}]{postfix}",
            desc="train",
        )
        self.last: StepMetrics | None = None

    def update(self, metrics: StepMetrics) -> None:
        """Takes one update's numbers."""
        self.last = metrics
        self._metrics.write(**asdict(metrics))
        self._bar.update(1)
        if metrics.step % self._interval == 0:
            self._bar.set_postfix_str(
                f"loss {metrics.loss:.3f}, grad norm {metrics.grad_norm:.2f}, {metrics.tokens_per_s:,.0f} tokens/s"
            )

    def say(self, text: str) -> None:
        """Says a line above the bar."""
        with self._bar.external_write_mode():
            self._say(text)

    def close(self) -> None:
        """Leaves the bar as it stands and closes the file."""
        self._bar.close()
        self._metrics.close()
