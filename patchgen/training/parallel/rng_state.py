"""Do processes that compute the same rows draw the same random numbers?

Each process writes the states of its generators with a checkpoint.  Under an engine whose processes see rows of their
own these differ: rows are of other lengths, and so dropout drew more or less.  Where another engine lets them compute
the same rows from there, each would drop out something else of what all of them hold, and they would drift apart.
"""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather


def share_rng_state(engine: Engine) -> None:
    """Let the generators of each process be where those of the first one are that computes the same rows."""
    if engine.tp == 1:
        return
    # Processes of a group follow each other: transformers' innermost dimension is that of tensor parallelism.
    first = engine.launch.rank - engine.launch.rank % engine.tp
    of_python, of_numpy, of_torch, of_cuda = gather(engine, _states())[first]
    random.setstate(of_python)
    numpy.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    if of_cuda is not None:
        torch.cuda.set_rng_state(of_cuda)


def _states() -> tuple[Any, Any, torch.Tensor, torch.Tensor | None]:
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    of_cuda = torch.cuda.get_rng_state() if on_cuda else None
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state(), of_cuda
