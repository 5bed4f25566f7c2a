"""Settings for Accelerate: it would give each process rows of its own.

Processes of tensor parallelism compute the same rows.
"""

from __future__ import annotations

from typing import Any

from accelerate import ParallelismConfig
from accelerate.utils import DynamoBackend

from patchgen.training.parallel.engine import Engine


class OnAnyDevice(ParallelismConfig):
    """Accelerate's configuration, allowed on a CPU too.

    Only the rows of each process are needed from it: patchgen has distributed the weights already.
    """

    def _validate_accelerator(self, accelerator: Any) -> None:
        if self.total_size != accelerator.num_processes:
            count = accelerator.num_processes
            raise ValueError(f"{self.total_size} processes are asked for, and there are {count}")


def make_parallelism_config(engine: Engine) -> ParallelismConfig | None:
    """Return which processes get the same rows; None where each has its own."""
    return OnAnyDevice(tp_size=engine.tp, dp_shard_size=engine.fsdp) if engine.tp > 1 else None


def list_backends() -> set[str]:
    """Return the backends of `torch.compile` that Accelerate, and so Trainer, has a name for."""
    return {name.lower() for name in DynamoBackend.__members__}
