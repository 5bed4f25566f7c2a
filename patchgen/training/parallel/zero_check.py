"""Does DeepSpeed's ZeRO run at the stage that was asked for, and does each process hold its part and no more?

Asked of DeepSpeed's engine and of the tensors themselves, before the first step.  Stage 1 spreads what the optimizer
updates, stage 2 gradients too, stage 3 the weights as well, in parts that need not end where a row does.  Parts are
of equal sizes: what does not come out even is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchgen.training.parallel.engine import Engine

ALIGNED = 2  # elements of which a multiple makes a part, at least


def bytes_held(parameter: Any) -> int:
    """Of a weight, on this process: its part in stage 3, and a small one whole beside it."""
    part = getattr(parameter, "ds_tensor", None)
    return int(parameter.nbytes + (0 if part is None else part.nbytes))


def bytes_whole(parameter: Any) -> int:
    """Of a weight, on all processes together."""
    return int(getattr(parameter, "ds_numel", parameter.numel()) * parameter.element_size())


def bytes_updated(wrapped: Any) -> int:
    """Of weights in float32 that this process's optimizer updates; its states are multiples of them."""
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
    """What is not as asked, the first of it."""
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
    """Of what is updated, and in stage 3 of each weight: more than a part of it on this process, or less."""
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
            yield f"a process has {part.numel():,} of the {weight.ds_numel:,} numbers of {name}: not its part"
        elif weight.numel() and not weight.ds_persist:
            yield f"{name} is whole on each process beside its parts"


def _padding(model: Any, world: int) -> int:
    """Bytes by which all parts together may exceed what they are parts of: each weight may be padded by itself."""
    return sum(ALIGNED * world * weight.element_size() for weight in model.parameters())


def _not_offloaded(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """What stays on the device, and should not; where the device is a CPU, only whether DeepSpeed was told."""
    if bool(wrapped.zero_use_cpu_optimizer()) != bool(engine.offload):
        yield f"the optimizer's states are {'on the device' if engine.offload else 'offloaded'}"
    if engine.offload and (
        away := [part for part in _updated(wrapped) if part.device.type != "cpu"]
    ):
        yield f"the optimizer's states are on {away[0].device}"
    told = wrapped.zero_offload_param()
    device = "none" if told is None else getattr(told.device, "value", told.device)
    if (device != "none") != (engine.offload == "parameters"):
        yield f"parameters are {'on the device' if engine.offload == 'parameters' else 'offloaded'}"
    if engine.offload == "parameters":
        for name, weight in model.named_parameters():
            if weight.ds_tensor.device.type != "cpu" and not weight.ds_persist:
                yield f"{name} is on {weight.ds_tensor.device}"
