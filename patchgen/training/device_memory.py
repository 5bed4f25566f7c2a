"""How much memory is free, and the peak of what was in use: of a GPU, or of this machine."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import torch

from patchgen.system import available_memory, peak_resident, reset_peak_resident

GIB = 2**30
FULL = "not enough memory|out of memory"  # of torch's allocator for the CPU
CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory(device: str) -> int | None:
    """Return the bytes that can still be allocated; None where the system does not tell.

    On the CPU this is what the system can give, within the limit of the process's control group.
    """
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    limits = [available_memory()]
    with contextlib.suppress(OSError, ValueError):  # there is no such group, or its limit is "max"
        limit, used = (
            int((CONTROL_GROUP / name).read_text(encoding="ascii"))
            for name in ("memory.max", "memory.current")
        )
        limits.append(limit - used)
    return min((count for count in limits if count is not None), default=None)


def is_of_memory(error: Exception) -> bool:
    """Return whether the system or the device has no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(re.search(FULL, str(error)))


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
