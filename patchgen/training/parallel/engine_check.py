"""Checks before the first step that the engine which runs is the one asked for.

A library that falls back to another engine trains with the same loss, but wastes a cluster's time.
So the check looks at where the bytes of each weight are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn.parallel import DistributedDataParallel

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.parallel.distribute import check_equal_weights, is_layer
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather
from patchgen.training.parallel.zero_check import (
    bytes_held,
    bytes_updated,
    bytes_whole,
    find_zero_problems,
)

SLACK = 1.1  # of a process's share of the bytes: few rows cannot be divided evenly


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What was found: the bytes of weights on each process, and of the whole model.

    For ZeRO also the float32 bytes that the optimizer of each process updates.
    """

    engine: str
    processes: int
    backend: str
    weights: int  # parameters that are sharded
    bytes_of_model: int
    bytes_of_process: tuple[int, ...]
    bytes_updated: tuple[int, ...] = ()


def check_engine(model: Any, wrapped: Any, engine: Engine) -> EngineReport:
    """Return what runs; raise PatchgenError PG834 where it is not what was asked for.

    `wrapped` is what Trainer calls: the model itself, or DDP or DeepSpeed's engine around it.
    """
    world = (
        distributed.get_world_size()
        if distributed.is_available() and distributed.is_initialized()
        else 1
    )
    if world != engine.launch.world:
        _fell_back(engine, f"{world} processes have met, not {engine.launch.world}")
    for problem in _problems(model, wrapped, engine):
        _fell_back(engine, problem)
    parameters = list(model.parameters())
    held = gather(engine, sum(bytes_held(_local(parameter)) for parameter in parameters))
    whole = sum(bytes_whole(parameter) for parameter in parameters)
    if engine.name == "fsdp2" and max(held) > SLACK * whole / engine.launch.world + _uneven(
        parameters
    ):
        _fell_back(engine, f"a process holds {max(held):,} bytes of {whole:,}: more than its share")
    return EngineReport(
        engine=engine.name,
        processes=world,
        backend=distributed.get_backend() if engine.is_distributed else "none",
        weights=sum(
            isinstance(parameter, DTensor) or hasattr(parameter, "ds_tensor")
            for parameter in parameters
        ),
        bytes_of_model=whole,
        bytes_of_process=held,
        bytes_updated=gather(engine, bytes_updated(wrapped)) if engine.zero_stage else (),
    )


def check_layout(model: Any, engine: Engine) -> None:
    """Raise PG834 where weights are not laid out as the engine says, before DDP wraps the model."""
    if engine.shards_weights:
        for problem in _problems(model, model, engine):
            _fell_back(engine, problem)


def _fell_back(engine: Engine, what: str) -> None:
    hint = "no step was made; another engine would have run in its place"
    raise PatchgenError("PG834", Location(f"--engine {engine.name}"), what, hint)


def _local(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def _uneven(parameters: list[Any]) -> int:
    """Return the bytes that a process may have beyond its share: a row of each weight."""
    return sum(
        math.prod(parameter.shape[1:]) * parameter.element_size() for parameter in parameters
    )


def _problems(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield how the model differs from what was asked for."""
    if engine.zero_stage:
        yield from find_zero_problems(model, wrapped, engine)
        return
    names = dict(model.named_parameters())
    spread = {
        name: parameter for name, parameter in names.items() if isinstance(parameter, DTensor)
    }
    is_ddp = isinstance(_inner(wrapped), DistributedDataParallel)
    if engine.name in ("single", "ddp"):
        if spread:
            yield f"{next(iter(spread))} is a DTensor"
        if is_ddp != (engine.name == "ddp"):
            yield f"what is called is a {type(wrapped).__name__}"
        check_equal_weights(model, engine)
        return
    if is_ddp:
        yield f"what is called is a {type(wrapped).__name__}"
    if engine.fsdp > 1:
        yield from _not_sharded(model, names, spread, engine)
        yield from _not_gathered(model, engine)
    if engine.tp > 1:
        yield from _not_as_planned(model, names, engine)
    if engine.ep > 1:
        yield from _experts_not_spread(model, spread, engine)


def _inner(wrapped: Any) -> Any:
    """Return the module inside the wrapper of `torch.compile`."""
    return getattr(wrapped, "_orig_mod", wrapped)


def _not_sharded(
    model: Any, names: Mapping[str, Any], spread: Mapping[str, DTensor], engine: Engine
) -> Iterator[str]:
    from torch.distributed.fsdp import FSDPModule

    if not isinstance(model, FSDPModule):
        yield f"{type(model).__name__} is no FSDPModule"
    layers = [(name, module) for name, module in model.named_modules() if is_layer(model, module)]
    for name, module in layers:
        if not isinstance(module, FSDPModule):
            yield f"the layer {name} is not sharded by itself: all weights are gathered at once"
    for name, parameter in names.items():
        if name not in spread:
            yield f"{name} is whole on each process"
            continue
        sharded = [
            place for place in parameter.placements if not isinstance(place, Replicate | Partial)
        ]
        if not sharded:
            yield f"{name} is a DTensor of {parameter.placements}: whole on each process"


def _not_gathered(model: Any, engine: Engine) -> Iterator[str]:
    """Yield modules that gather in another dtype than asked for, and weights in none of them."""
    from torch.distributed.fsdp import FSDPModule

    wanted = (torch.bfloat16, torch.float32) if engine.mixed else (None, None)
    managed: set[int] = set()
    for name, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        state = module._get_fsdp_state()
        managed |= {
            id(one.sharded_param) for group in state._fsdp_param_groups for one in group.fsdp_params
        }
        policy = state._mp_policy
        found = (policy.param_dtype, policy.reduce_dtype)
        if engine.mixed is not None and found != wanted:
            gathered_in, summed_in = (dtype or "their own type" for dtype in found)
            place = name or "the model"
            dtypes = f"gathered in {gathered_in}, gradients summed in {summed_in}"
            yield f"weights of {place} are {dtypes}"
    for name, parameter in model.named_parameters():
        if id(parameter) not in managed:  # with fsdp2+tp it may still be a one-dimensional DTensor
            yield f"{name} is of no module that gathers: FSDP neither shards nor casts it"
        if engine.mixed and parameter.dtype != torch.float32:
            yield f"{name} is kept in {parameter.dtype}"


def _not_as_planned(model: Any, names: Mapping[str, Any], engine: Engine) -> Iterator[str]:
    """Yield the weights that are not laid out as their rule of the tensor-parallel plan says."""
    from transformers.distributed.parallel_utils import _get_parameter_plan as rule_of

    plan = {
        rule: style
        for rule, style in model.tp_plan.items()
        if not _is_of(rule, _experts(model, engine))
    }
    sharded = 0
    for name, parameter in names.items():
        style = rule_of(name, plan)
        if style is None or style not in SHARDED:
            continue
        wanted = SHARDED[style]
        if wanted == COLUMNS and name.endswith(".bias"):
            continue  # added after the sum, on each process
        if not isinstance(parameter, DTensor):
            yield f"{name} is whole on each process, and its plan says {style}"
            continue
        place = parameter.placements[-1]
        if isinstance(place, Replicate | Partial):
            yield f"{name} is a DTensor of {parameter.placements}, and its plan says {style}"
            continue
        dimension = place.dim % parameter.dim()
        if dimension != (wanted % parameter.dim() if parameter.dim() > 1 else 0):
            yield f"{name} is split along dimension {dimension}, and its plan says {style}"
        sharded += 1
    if not sharded:
        yield f"no weight of {type(model).__name__} is split"


ROWS, COLUMNS = -2, -1  # of a matrix, the last two dimensions
# The dimension that each of transformers' styles splits; other styles do not split a weight.
SHARDED = {
    "colwise": ROWS,
    "colwise_gather_output": ROWS,
    "colwise_rep": ROWS,
    "packed_colwise": ROWS,
    "embedding_rowwise": ROWS,
    "rowwise": COLUMNS,
    "rowwise_split_input": COLUMNS,
    "rowwise_rep": COLUMNS,
    "packed_rowwise": COLUMNS,
    "embedding_colwise": COLUMNS,
}


def _experts(model: Any, engine: Engine) -> tuple[str, ...]:
    return tuple(model.ep_plan) if engine.ep > 1 else ()


def _is_of(rule: str, others: tuple[str, ...]) -> bool:
    return any(rule == other or rule.startswith(f"{other}.") for other in others)


def _experts_not_spread(model: Any, spread: Mapping[str, DTensor], engine: Engine) -> Iterator[str]:
    """Yield the weights of the expert plan whose experts are not divided among the processes."""
    from transformers.distributed.parallel_utils import _get_parameter_plan as rule_of

    experts = 0
    for name, parameter in model.named_parameters():
        if rule_of(name, model.ep_plan) != "grouped_gemm":
            continue
        experts += 1
        if name not in spread:
            yield f"the experts of {name} are all on each process"
        elif not any(isinstance(place, Shard) and place.dim == 0 for place in parameter.placements):
            yield f"{name} is a DTensor of {parameter.placements}: its experts are not spread"
        elif parameter.to_local().shape[0] * engine.ep > parameter.shape[0]:
            held = parameter.to_local().shape[0]
            yield f"a process holds {held} of {parameter.shape[0]} experts of {name}"
    if not experts:
        yield f"no weight of {type(model).__name__} is one of experts"
