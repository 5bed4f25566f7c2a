"""Measures a step on several ranks, each a process of this machine.

The processes communicate by gloo on CPUs, and by NCCL on GPUs.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, multiprocessing

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.memory.figures import Figures
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.target import Choice, find_target

PATIENCE = timedelta(seconds=300)  # a rank waits so long for the others


@dataclass(frozen=True)
class Job:
    """A model by its name, which each process builds, and how it is trained."""

    name: str
    choice: Choice
    setup: Setup
    start: Path | None = None


def measure_on_ranks(jobs: Sequence[Job], layout_ranks: int) -> tuple[tuple[Figures, ...], ...]:
    """Return the figures of each rank for each job; the same processes run all jobs.

    Raises PatchgenError PG853 with the message of a rank that fails; the others are ended.
    """
    for job in jobs:
        _check_measurable(job.setup, layout_ranks)
    with tempfile.TemporaryDirectory() as folder:
        try:
            multiprocessing.spawn(_rank, (layout_ranks, tuple(jobs), folder), nprocs=layout_ranks)
        except (
            multiprocessing.ProcessRaisedException,
            multiprocessing.ProcessExitedException,
        ) as error:
            reason = str(error).strip().splitlines()[-1]
            raise PatchgenError(
                "PG853", Location(f"{layout_ranks} ranks"), f"a rank failed: {reason}"
            ) from error
        found = [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(layout_ranks)]
    return tuple(zip(*found, strict=True))


def _check_measurable(setup: Setup, ranks: int) -> None:
    layout = setup.layout
    assert layout is not None and layout.ranks == ranks
    where = Location(f"--engine {layout.engine}")
    if layout.computed:
        hint = "deepspeed allocates by itself, and asks for GPUs: it is not measured here"
        raise PatchgenError("PG853", where, "is computed, and nothing of it can be run here", hint)
    there = torch.cuda.device_count() if setup.device == "cuda" else ranks
    if ranks > there:
        raise PatchgenError(
            "PG853", where, f"{ranks} ranks want a GPU each, and there are {there}", "--device cpu"
        )


def _rank(rank: int, ranks: int, jobs: tuple[Job, ...], folder: str) -> None:
    """Run the jobs in one process."""
    from patchgen.training.memory.measure import measure_step

    torch.set_num_threads(1)
    device = jobs[0].setup.device
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    if device == "cuda":
        torch.cuda.set_device(rank)
    store = distributed.FileStore(str(Path(folder, "store")), ranks)
    backend = "nccl" if device == "cuda" else "gloo"
    distributed.init_process_group(
        backend, store=store, rank=rank, world_size=ranks, timeout=PATIENCE
    )
    try:
        measurements = [
            measure_step(find_target(job.name, job.choice, job.start), job.setup) for job in jobs
        ]
    finally:
        distributed.destroy_process_group()
    Path(folder, str(rank)).write_bytes(pickle.dumps(measurements))
