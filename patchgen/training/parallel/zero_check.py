"""Checks before the first step that DeepSpeed's ZeRO runs at the stage that was asked for.

Stage 1 divides the optimizer's states, stage 2 also gradients, stage 3 also weights.  Parts are
equally large: they are padded, and may end anywhere in a weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchgen.training.parallel.engine import Engine

ALIGNED = 2  # elements; a part is at least a multiple of them


def bytes_held(parameter: Any) -> int:
    """Return the bytes of a weight on this process: in stage 3 its part."""
    part = getattr(parameter, "ds_tensor", None)
    return int(parameter.nbytes + (0 if part is None else part.nbytes))


def bytes_whole(parameter: Any) -> int:
    """Return the bytes of a weight on all processes together."""
    return int(getattr(parameter, "ds_numel", parameter.numel()) * parameter.element_size())


def bytes_updated(wrapped: Any) -> int:
    """Return the bytes of float32 weights that this process's optimizer updates."""
    return sum(part.nbytes for part in _updated(wrapped))


def _updated(wrapped: Any) -> list[Any]:
    optimizer = wrapped.optimizer
    parts = (
        "fp32_partitioned_groups_flat"
        if wrapped.zero_optimization_stage() == 3
        else "single_partition_of_fp32_groups"
    )
    return list(getattr(optimizer, parts))


def find_zero_problems(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield how the model differs from what was asked for."""
    from deepspeed import DeepSpeedEngine

    if not isinstance(wrapped, DeepSpeedEngine):
        yield f"what is called is a {type(wrapped).__name__}, and no engine of DeepSpeed"
        return
    zero_stage, parts = wrapped.zero_optimization_stage(), wrapped.dp_world_size
    if zero_stage != engine.zero_stage:
        yield f"DeepSpeed runs stage {zero_stage}"
        return
    if wrapped.module is not model:
        yield f"DeepSpeed's engine runs another {type(wrapped.module).__name__}"
    if parts != engine.launch.world:
        yield f"DeepSpeed makes {parts} parts for {engine.launch.world} processes"
    if not type(wrapped.basic_optimizer).__module__.startswith("torch.optim"):
        yield f"the optimizer is DeepSpeed's own {type(wrapped.basic_optimizer).__name__}"
    yield from _not_spread(model, wrapped, engine)
    yield from _not_offloaded(model, wrapped, engine)


def _not_spread(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield weights and states of which this process has more, or less, than its part."""
    world = engine.launch.world
    trained = sum(bytes_whole(weight) for weight in model.parameters() if weight.requires_grad)
    updated, padding = bytes_updated(wrapped), _padding(model, world)
    if not trained <= updated * world <= trained + padding:
        yield f"a process updates {updated:,} bytes of {trained:,}: not its part"
    if bool(getattr(wrapped.optimizer, "partition_gradients", engine.zero_stage == 3)) != (
        engine.zero_stage >= 2
    ):
        yield f"gradients are {'whole' if engine.zero_stage >= 2 else 'spread'}"
    for name, weight in model.named_parameters():
        part = getattr(weight, "ds_tensor", None)
        if engine.zero_stage < 3:
            if part is not None:
                yield f"{name} is spread"
        elif part is None:
            yield f"{name} is whole on each process"
        elif part.numel() != -(-weight.ds_numel // world):
            count = f"{part.numel():,} of the {weight.ds_numel:,} numbers"
            yield f"a process has {count} of {name}: not its part"
        elif weight.numel() and not weight.ds_persist:
            yield f"{name} is whole on each process beside its parts"


def _padding(model: Any, world: int) -> int:
    """Return the most bytes that the padding of all weights may take."""
    return sum(ALIGNED * world * weight.element_size() for weight in model.parameters())


def _not_offloaded(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield what is on the wrong device.

    On a CPU run this only checks DeepSpeed's configuration.
    """
    if bool(wrapped.zero_use_cpu_optimizer()) != bool(engine.offload):
        yield f"the optimizer's states are {'on the device' if engine.offload else 'offloaded'}"
    if engine.offload and (
        away := [part for part in _updated(wrapped) if part.device.type != "cpu"]
    ):
        yield f"the optimizer's states are on {away[0].device}"
    offload = wrapped.zero_offload_param()
    device = "none" if offload is None else getattr(offload.device, "value", offload.device)
    if (device != "none") != (engine.offload == "parameters"):
        yield f"parameters are {'on the device' if engine.offload == 'parameters' else 'offloaded'}"
    if engine.offload == "parameters":
        for name, weight in model.named_parameters():
            if weight.ds_tensor.device.type != "cpu" and not weight.ds_persist:
                yield f"{name} is on {weight.ds_tensor.device}"
