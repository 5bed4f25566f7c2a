"""How much memory is free, and the peak of what was in use: of a GPU, or of this machine."""

from __future__ import annotations

from pathlib import Path

import torch

from patchgen.system import available_memory, peak_resident, reset_peak_resident

GIB = 2**30
# The limit of a control group and what its processes use, in both versions of the interface.
_CONTROL_GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def free_memory(device: str) -> int | None:
    """Return the bytes that can still be allocated; None where the system does not tell.

    On the CPU this is what the system can give, within the limit of the process's control group.
    """
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    available = available_memory()
    limits = _free_in_control_groups()
    known = [*limits] if available is None else [available, *limits]
    return min(known, default=None)


def _free_in_control_groups() -> list[int]:
    """Return what each control group with a limit has left."""
    found = []
    for folder, limit_file, used_file in _CONTROL_GROUPS:
        try:
            limit = int(Path(folder, limit_file).read_text(encoding="ascii"))
            used = int(Path(folder, used_file).read_text(encoding="ascii"))
        except (OSError, ValueError):  # there is no such group, or its limit is "max"
            continue
        found.append(limit - used)
    return found


def reset_peak_memory(device: str) -> None:
    """Start a new measurement of the peak, where the system can."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        reset_peak_resident()


def peak_memory(device: str) -> int:
    """Return the peak in bytes: of torch's allocator on the GPU, or of this process."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return peak_resident()
