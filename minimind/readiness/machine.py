"""What this machine has, as far as a run cares: processor, memory, accelerators, free disk."""

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import torch

from minimind.config import RunConfig


@dataclass(frozen=True)
class Accelerator:
    """One GPU.

    Attributes:
        device: as `--device` names it: "cuda:0", "mps".
        name: of the chip.
        memory_bytes: free now.
        bfloat16: whether it has instructions for bfloat16, rather than an emulation.
    """

    device: str
    name: str
    memory_bytes: int
    bfloat16: bool


@dataclass(frozen=True)
class Disk:
    """Free room where a folder lies; folders on the same disk have the same `identity`."""

    free_bytes: int
    identity: int = 0


@dataclass(frozen=True)
class Machine:
    """What a run would find here. Change a copy (`dataclasses.replace`) to ask about another machine.

    Attributes:
        system: "Linux", "Darwin", "Windows".
        processor: its architecture.
        cores: that this process may use.
        memory_bytes: free for programs; where the system does not say, all there is; None when nothing is known.
        bfloat16: whether the processor has instructions for bfloat16, rather than an emulation.
        accelerators: that torch can use.
        nvidia_driver: whether a driver of an NVIDIA GPU is installed, whether or not torch can use it.
        save_disk: where save_dir lies or would lie.
        checkpoint_disk: where checkpoint_dir lies or would lie.
    """

    system: str
    processor: str
    cores: int
    memory_bytes: int | None
    bfloat16: bool
    accelerators: tuple[Accelerator, ...]
    nvidia_driver: bool
    save_disk: Disk
    checkpoint_disk: Disk


def this_machine(run: RunConfig) -> Machine:
    """Looks at the machine that this runs on, and at the disks of a run's two folders."""
    return Machine(
        system=platform.system(),
        processor=platform.machine(),
        cores=_cores(),
        memory_bytes=_free_memory_bytes(),
        bfloat16=_processor_has_bfloat16(),
        accelerators=(*_cuda(), *_mps()),
        nvidia_driver=shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists(),
        save_disk=_disk(run.save_dir),
        checkpoint_disk=_disk(run.checkpoint_dir),
    )


def _cuda() -> list[Accelerator]:
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        with torch.cuda.device(index):
            found.append(
                Accelerator(
                    device=f"cuda:{index}",
                    name=torch.cuda.get_device_name(index),
                    memory_bytes=torch.cuda.mem_get_info(index)[0],
                    bfloat16=torch.cuda.is_bf16_supported(including_emulation=False),
                )
            )
    return found


def _mps() -> list[Accelerator]:
    if not torch.backends.mps.is_available():
        return []

    bfloat16 = torch.backends.mps.is_macos_or_newer(14, 0)
    return [Accelerator("mps", "Apple GPU", torch.mps.recommended_max_memory(), bfloat16)]


def _processor_has_bfloat16() -> bool:
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    if any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")):
        return True
    return (
        re.search(r"^(flags|Features)\s*:.*\b(avx512_bf16|amx_bf16|bf16)\b", _read("/proc/cpuinfo"), re.M) is not None
    )


def _cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()  # of a container: microseconds in a period, or "max"
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, max(1, ceil(int(quota[0]) / int(quota[1]))))
    return cores


def _free_memory_bytes() -> int | None:
    available = re.search(r"^MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"), re.M)
    known = [int(available[1]) * 1024] if available else []
    if not known and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        if (text := _read(limit).strip()).isdigit():
            known.append(int(text))
    return min(known, default=None)


def _disk(folder: str) -> Disk:
    here = Path(folder.replace("\0", "")).absolute()
    while not here.exists() and here != here.parent:
        here = here.parent
    return Disk(shutil.disk_usage(here).free, os.stat(here).st_dev)


def _read(path: str) -> str:
    """The text of a file in which this system describes itself; "" where it has none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
