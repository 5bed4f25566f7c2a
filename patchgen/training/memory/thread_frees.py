"""Frees that the profiler sees: those of the thread that makes the step.

Gloo's threads may hold what ranks exchanged a moment longer than the step does, and then it is they who free it, where
the profiler does not look: a tensor stays in its books that is not there, in one run and not in the next.
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

MOMENT = 1e-3  # seconds, in which a thread lets go of what it has exchanged


@contextmanager
def on_this_thread() -> Iterator[None]:
    """A context in which the step gives other threads a moment after each exchange, and so frees last."""
    wait = distributed.Work.wait

    def and_a_moment(work: distributed.Work, *args: Any) -> bool:
        told = wait(work, *args)
        time.sleep(MOMENT)
        return told

    # FSDP2 waits for its exchanges by themselves, DTensor by an operation.
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
