"""Equal random numbers on processes that compute the same rows.

Each process saves the states of its random number generators (RNGs) with a checkpoint.  Where
processes see different rows these states differ: rows have different lengths, so dropout has drawn
more or fewer numbers.  When an engine whose processes compute the same rows resumes from such a
checkpoint, each of them would drop different values, and their weights would drift apart.
"""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather


def share_rng_state(engine: Engine) -> None:
    """Give each process the RNG states of the first process that computes the same rows."""
    if engine.tp == 1:
        return
    # Ranks of a group are consecutive: tensor parallelism is the innermost mesh dimension.
    first = engine.launch.rank - engine.launch.rank % engine.tp
    of_python, of_numpy, of_torch, of_cuda = gather(engine, _states())[first]
    random.setstate(of_python)
    numpy.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    if of_cuda is not None:
        torch.cuda.set_rng_state(of_cuda)


def _states() -> tuple[Any, Any, torch.Tensor, torch.Tensor | None]:
    """Return the states of Python, numpy, torch, and CUDA where it is in use."""
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    of_cuda = torch.cuda.get_rng_state() if on_cuda else None
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state(), of_cuda
