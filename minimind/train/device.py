"""Where a run computes: the device, the precision of its forward pass, the CPU threads."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

SMALL_MODEL_PARAMETERS = 500_000
"""Below this a second CPU thread brings little (0.16M parameters: an update of 0.125 s takes 0.103 s with two), and
costs much when another program wants the core: then two threads were more than ten times slower than one."""


def resolve_device(name: str) -> torch.device:
    """The device that `--device` means.

    Raises:
        ValueError: no such device, or not on this machine; the message lists those that are.
    """
    there = ["cpu"]
    if torch.backends.mps.is_available():
        there.insert(0, "mps")
    if torch.cuda.is_available():
        there.insert(0, "cuda")
    if name == "auto":
        return torch.device(there[0])
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} is not a device; this machine has {', '.join(there)}.") from error
    if device.type not in there:
        raise ValueError(f"device={name!r} is not on this machine, which has {', '.join(there)}.")
    return device


def make_autocast(dtype: str, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """The context of each forward pass: none for float32, torch's autocast for bfloat16.

    Raises:
        ValueError: this device cannot compute in bfloat16.
    """
    if dtype == "float32":
        return nullcontext
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ValueError(f"dtype={dtype!r}: this GPU has no bfloat16 instructions; use --dtype float32.")
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


def good_threads(parameters: int) -> int:
    """CPU threads that suit a model of so many parameters: one for a small one, else one for each core."""
    if parameters < SMALL_MODEL_PARAMETERS:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
