"""How large a step to take, as a factor on the peak rate."""

import math
from collections.abc import Callable


def warmup_cosine(total_steps: int, warmup_steps: int = 0, floor: float = 0.1) -> Callable[[int], float]:
    """Rises in a straight line over `warmup_steps`, then falls along half a cosine to `floor`.

    With `warmup_steps=0` and the default floor this is MiniMind's own schedule,
    lr * (0.1 + 0.45 * (1 + cos(pi * t / T))).

    Args:
        total_steps: T, updates in the whole run.
        warmup_steps: updates before the peak; the first of them already moves.
        floor: factor at the end.

    Returns:
        Update number 0, 1, ..., T - 1 -> factor in (0, 1]. Beyond T it stays at the floor.

    Raises:
        ValueError: a length or floor that makes no schedule.
    """
    if total_steps < 1 or not 0 <= warmup_steps < total_steps:
        raise ValueError(
            f"a schedule of {total_steps} steps with {warmup_steps} of warm-up has no step at the full rate; "
            "give at least one step more than the warm-up takes."
        )
    if not 0.0 <= floor <= 1.0:
        raise ValueError(f"floor={floor} must lie between 0 and 1: it is a share of the peak rate.")

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / (warmup_steps + 1)
        progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
        return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))

    return factor
