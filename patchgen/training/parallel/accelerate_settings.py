"""What Accelerate is told and asked.

Of processes that compute the same rows it is told, because each would be given rows of its own.
"""

from __future__ import annotations

from typing import Any

from accelerate import ParallelismConfig
from accelerate.utils import DynamoBackend

from patchgen.training.parallel.engine import Engine


class OnAnyDevice(ParallelismConfig):  # type: ignore[misc]
    """Accelerate's own, on a CPU too: of it only the rows of each process are wanted, weights are laid out already."""

    def _validate_accelerator(self, accelerator: Any) -> None:
        if self.total_size != accelerator.num_processes:
            raise ValueError(
                f"{self.total_size} processes are asked for, and there are {accelerator.num_processes}"
            )


def make_parallelism_config(engine: Engine) -> ParallelismConfig | None:
    """Which processes are given the same rows; None where each has its own."""
    return OnAnyDevice(tp_size=engine.tp, dp_shard_size=engine.fsdp) if engine.tp > 1 else None


def list_backends() -> set[str]:
    """Those of `torch.compile` that it has a name for, and so Trainer."""
    return {name.lower() for name in DynamoBackend.__members__}
