"""Finds which attention really ran, by torch's operations and kernels in a profile."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

_ATTENTION = re.compile(
    r"aten::_(scaled_dot_product|flash_attention|efficient_attention|cudnn_attention)\w*"
    r"|_varlen_attn|flash\w*(fwd|bwd)|fmha|sdpa|attention\w*kernel",
    re.IGNORECASE,
)
_BY_HAND = re.compile(r"softmax", re.IGNORECASE)
MOST = 6


def attention_kernels(run: Callable[[], Any], device: str) -> tuple[str, ...]:
    """Return the attention operations and kernels in `run`, the longest first.

    Where there are none, softmaxes are returned: attention without a fused kernel.
    """
    activities = [ProfilerActivity.CPU] + (
        [ProfilerActivity.CUDA] if device.startswith("cuda") else []
    )
    with profile(activities=activities) as profiled:
        run()
    spent: dict[str, float] = {}
    for event in profiled.key_averages():
        time = getattr(event, "self_device_time_total", 0.0) or event.self_cpu_time_total
        spent[event.key] = spent.get(event.key, 0.0) + time
    for pattern in (_ATTENTION, _BY_HAND):
        found = [name for name in spent if pattern.search(name)]
        if found:
            return tuple(name[:120] for name in sorted(found, key=lambda name: -spent[name])[:MOST])
    return ()
