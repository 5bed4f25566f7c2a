"""Checks before the first step that the engine which runs is the one asked for.

A library that falls back to another engine trains with the same loss, but wastes a cluster's time.
So the check looks at where the bytes of each weight are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.nn.parallel import DistributedDataParallel

from patchgen.runtime.plans import ROWS, plan_of, splits
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.parallel.distribute import check_equal_weights, is_layer
from patchgen.training.parallel.engine import SHARDED, Engine
from patchgen.training.parallel.process_group import gather
from patchgen.training.parallel.zero import bytes_updated, find_zero_problems

SLACK = 1.1  # of a process's share of the bytes: few rows cannot be divided evenly


def check_engine(model: Any, wrapped: Any, engine: Engine) -> dict[str, Any]:
    """Return what runs; raise PatchgenError PG834 where it is not what was asked for.

    `wrapped` is what Trainer calls: the model itself, or DDP or DeepSpeed's engine around it.  What
    runs are the bytes of weights on each process, and of the whole model; for ZeRO also the float32
    bytes that the optimizer of each process updates.
    """
    joined = distributed.is_available() and distributed.is_initialized()
    world = 1
    if joined:
        world = distributed.get_world_size()
    if world != engine.launch.world:
        _fell_back(engine, f"{world} processes have met, not {engine.launch.world}")
    for problem in _problems(model, wrapped, engine):
        _fell_back(engine, problem)
    weights = list(model.parameters())
    held = gather(engine, sum(_bytes_held(weight) for weight in weights))
    whole = sum(_size(weight) * weight.element_size() for weight in weights)
    # A row of each weight is what a process may have beyond its share.
    uneven = sum(math.prod(weight.shape[1:]) * weight.element_size() for weight in weights)
    if engine.name in ("fsdp2", "zero3") and max(held) > SLACK * whole / world + uneven:
        _fell_back(engine, f"a process holds {max(held):,} bytes of {whole:,}: more than its share")
    sharded = [each for each in weights if isinstance(each, DTensor) or hasattr(each, "ds_tensor")]
    return {
        "engine": engine.name,
        "processes": world,
        "backend": distributed.get_backend() if engine.is_distributed else "none",
        "weights": len(sharded),
        "bytes_of_model": whole,
        "bytes_of_process": held,
        "bytes_updated": gather(engine, bytes_updated(wrapped)) if engine.zero_stage else (),
    }


def check_layout(model: Any, engine: Engine) -> None:
    """Raise PG834 where weights are not laid out as the engine says, before DDP wraps the model."""
    if engine.shards_weights:
        for problem in _problems(model, model, engine):
            _fell_back(engine, problem)


def _fell_back(engine: Engine, what: str) -> None:
    hint = "no step was made; another engine would have run in its place"
    raise PatchgenError("PG834", Location(f"--engine {engine.name}"), what, hint)


def _size(weight: Any) -> int:
    """Return the numbers of a weight on all processes together; `ds_numel` is DeepSpeed's."""
    return int(getattr(weight, "ds_numel", weight.numel()))


def _bytes_held(weight: Any) -> int:
    """Return the bytes of a weight on this process; in ZeRO-3 those of its part."""
    local = weight.to_local() if isinstance(weight, DTensor) else weight
    part = getattr(weight, "ds_tensor", None)
    return int(local.nbytes + (0 if part is None else part.nbytes))


def _problems(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield how the model differs from what was asked for."""
    if engine.zero_stage:
        yield from find_zero_problems(model, wrapped, engine)
        return
    # `torch.compile` has a wrapper of its own.
    is_ddp = isinstance(getattr(wrapped, "_orig_mod", wrapped), DistributedDataParallel)
    if is_ddp != (engine.name == "ddp"):
        yield f"what is called is a {type(wrapped).__name__}"
    weights = dict(model.named_parameters())
    if not engine.shards_weights:
        if spread := [name for name, weight in weights.items() if isinstance(weight, DTensor)]:
            yield f"{spread[0]} is a DTensor"
        check_equal_weights(model, engine)
        return
    if engine.name in SHARDED:
        yield from _not_sharded(model, engine)
        split = dict.fromkeys(weights, "every weight is sharded")
    else:
        plan = splits(model, plan_of(model, "tp"))
        # Such a bias is added after the sum, on each process.
        split = {
            name: f"its plan says {style}"
            for name, style in plan.items()
            if not (style in ROWS and name.endswith(".bias"))
        }
    for name, why in split.items():
        if not _is_split(weights[name]):
            yield f"{name} is whole on each process, and {why}"
    if not split:
        yield f"no weight of {type(model).__name__} is split"
    if engine.name == "ep":
        for name in splits(model, plan_of(model, "ep")):
            experts = len(weights[name])
            held = len(weights[name].to_local())
            if held * engine.launch.world > experts:
                yield f"a process holds {held} of {experts} experts of {name}"


def _is_split(weight: torch.Tensor) -> bool:
    return isinstance(weight, DTensor) and not all(
        isinstance(placement, Replicate | Partial) for placement in weight.placements
    )


def _not_sharded(model: Any, engine: Engine) -> Iterator[str]:
    """Yield layers that are not sharded by themselves, or gather in another type than asked for."""
    from torch.distributed.fsdp import FSDPModule

    wanted = (torch.bfloat16, torch.float32) if engine.mixed else (None, None)
    for name, module in model.named_modules():
        place = name or type(model).__name__
        if isinstance(module, FSDPModule):
            policy = module._get_fsdp_state()._mp_policy
            if engine.mixed is not None and (policy.param_dtype, policy.reduce_dtype) != wanted:
                gathered, summed = (
                    dtype or "their own type" for dtype in (policy.param_dtype, policy.reduce_dtype)
                )
                yield f"weights of {place} are gathered in {gathered}, gradients summed in {summed}"
        elif module is model or is_layer(model, module):
            yield f"{place} is not sharded by itself: all weights are gathered at once"
