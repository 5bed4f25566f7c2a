"""Makes the step's own thread free what ranks have exchanged, where the profiler sees it.

Gloo's threads may hold a tensor a moment longer than the step.  If they free it, the profiler does
not see that, and counts a tensor that is gone; in some runs and not in others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import distributed
from torch.utils._python_dispatch import TorchDispatchMode

from patchgen.training.memory.ledger import is_wrapper
from patchgen.training.patching import patched

MOMENT = 1e-3  # seconds until a gloo thread has let go of its tensors


@contextmanager
def on_this_thread() -> Iterator[None]:
    """Wait a moment after each exchange, so that this thread frees last."""
    wait = distributed.Work.wait

    def and_a_moment(work: distributed.Work, *args: Any) -> bool:
        result = wait(work, *args)
        time.sleep(MOMENT)
        return result

    # FSDP2 calls `Work.wait`, DTensor an operation that the mode sees.
    with patched((distributed.Work, "wait", and_a_moment)), _Slowly():
        yield


class _Slowly(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if any(map(is_wrapper, types)):
            return NotImplemented  # its parts come here
        out = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional"):
            time.sleep(MOMENT)
        return out
