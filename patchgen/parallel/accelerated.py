"""What Accelerate is told of processes that compute the same rows: without it each would be given rows of its own."""

from __future__ import annotations

from typing import Any

from accelerate import ParallelismConfig

from patchgen.parallel.engine import Engine


class OnAnyDevice(ParallelismConfig):  # type: ignore[misc]
    """Accelerate's own, on a CPU too: of it only the rows of each process are wanted, weights are laid out already."""

    def _validate_accelerator(self, accelerator: Any) -> None:
        if self.total_size != accelerator.num_processes:
            raise ValueError(f"{self.total_size} processes are asked for, and there are {accelerator.num_processes}")


def rows_of_processes(engine: Engine) -> ParallelismConfig | None:
    """Which processes are given the same rows; None where each has its own."""
    return OnAnyDevice(tp_size=engine.tp, dp_shard_size=engine.fsdp) if engine.tp > 1 else None
