"""Configures DeepSpeed for `--engine zero1`, `zero2` and `zero3`, and checks that it runs.

Stage 1 divides the optimizer's states, stage 2 also gradients, stage 3 also weights.  Trainer
replaces each "auto" by a value from its own arguments.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers.integrations.deepspeed import (
    set_hf_deepspeed_config,
    unset_hf_deepspeed_config,
)

from patchgen.project.origin import install_hint
from patchgen.syntax.errors import Location, PatchgenError, one_line
from patchgen.training.parallel.engine import Engine

AUTO = "auto"
ACCELERATOR = "DS_ACCELERATOR"  # the device for DeepSpeed, which otherwise takes what it finds
SLACK = 1.1  # of a process's part: it is padded, and may end anywhere in a weight


def make_zero_arguments(engine: Engine, bf16: bool, device: str) -> dict[str, Any]:
    """Return Trainer's arguments for ZeRO; none for another engine."""
    if not engine.zero_stage:
        return {}
    zero: dict[str, Any] = {"stage": engine.zero_stage, "reduce_bucket_size": AUTO}
    if engine.zero_stage == 3:
        zero |= {
            "stage3_prefetch_bucket_size": AUTO,
            "stage3_param_persistence_threshold": AUTO,
            # Despite its name it gathers float32 weights too.
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    offloaded = {"device": "cpu", "pin_memory": device == "cuda"}
    if engine.offload:
        zero["offload_optimizer"] = offloaded
    if engine.offload == "parameters":
        zero["offload_param"] = offloaded
    values: dict[str, Any] = {
        "zero_optimization": zero,
        "train_batch_size": AUTO,
        "train_micro_batch_size_per_gpu": AUTO,
        "gradient_accumulation_steps": AUTO,
        "gradient_clipping": AUTO,
        # Otherwise Accelerate replaces every optimizer by DeepSpeed's Adam.
        "zero_force_ds_cpu_optimizer": False,
    }
    if bf16:  # under Trainer's own `bf16` DeepSpeed would make the weights bfloat16
        values["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
    return {"deepspeed": values, "bf16": False}


def check_deepspeed(engine: Engine, device: str) -> None:
    """Let DeepSpeed use the device.

    Raises PatchgenError PG845 where DeepSpeed is missing or uses another device.
    """
    if not engine.zero_stage:
        return
    where = Location(f"--engine {engine.name}")
    os.environ.setdefault(ACCELERATOR, device)
    # DeepSpeed calls deprecated functions of torch in every step.
    warnings.filterwarnings("ignore", message="`torch.distributed", category=FutureWarning)
    try:
        from deepspeed.accelerator import get_accelerator
    except Exception as error:  # each release of DeepSpeed fails in its own way
        what = f"deepspeed cannot be imported: {one_line(error)}"
        hint = f"{install_hint('deepspeed')}, in a release that goes with this torch"
        raise PatchgenError("PG845", where, what, hint) from error
    found = get_accelerator().device_name()
    if found != device:
        setting = f"{ACCELERATOR}={os.environ[ACCELERATOR]}"
        what = f"deepspeed takes {found} ({setting}), and the run is on {device}"
        raise PatchgenError("PG845", where, what, f"{ACCELERATOR}={device}, or none at all")


@contextmanager
def built_whole(arguments: Any) -> Iterator[None]:
    """Build a model with the weights that a run on one process begins with.

    In stage 3 transformers would draw other ones, of which each process has its part only.
    """
    unset_hf_deepspeed_config()
    try:
        yield
    finally:
        if config := getattr(arguments, "hf_deepspeed_config", None):
            set_hf_deepspeed_config(config)


def bytes_updated(wrapped: Any) -> int:
    """Return the bytes of float32 weights that this process's optimizer updates."""
    in_stage_3 = wrapped.zero_optimization_stage() == 3
    name = "fp32_partitioned_groups_flat" if in_stage_3 else "single_partition_of_fp32_groups"
    return sum(part.nbytes for part in getattr(wrapped.optimizer, name))


def find_zero_problems(model: Any, wrapped: Any, engine: Engine) -> Iterator[str]:
    """Yield how what runs differs from the stage and the offloading that were asked for."""
    from deepspeed import DeepSpeedEngine

    if not isinstance(wrapped, DeepSpeedEngine):
        yield f"what is called is a {type(wrapped).__name__}, and no engine of DeepSpeed"
        return
    zero_stage = wrapped.zero_optimization_stage()
    world = engine.launch.world
    if zero_stage != engine.zero_stage:
        yield f"DeepSpeed runs stage {zero_stage}"
        return
    if wrapped.module is not model:
        yield f"DeepSpeed's engine runs another {type(wrapped.module).__name__}"
    if wrapped.dp_world_size != world:
        yield f"DeepSpeed makes {wrapped.dp_world_size} parts for {world} processes"
    if not type(wrapped.basic_optimizer).__module__.startswith("torch.optim"):
        yield f"the optimizer is DeepSpeed's own {type(wrapped.basic_optimizer).__name__}"
    numbers = (getattr(weight, "ds_numel", weight.numel()) for weight in model.parameters())
    whole = 4 * sum(numbers)
    updated = bytes_updated(wrapped)
    if updated > SLACK * whole / world:
        yield f"a process updates {updated:,} bytes of {whole:,}: more than its part"
    offload = wrapped.zero_offload_param()
    device = "none" if offload is None else getattr(offload.device, "value", offload.device)
    for what, wanted, runs in (
        ("the optimizer's states", bool(engine.offload), bool(wrapped.zero_use_cpu_optimizer())),
        ("parameters", engine.offload == "parameters", device != "none"),
    ):
        if wanted != runs:
            yield f"{what} are {'on the device' if wanted else 'offloaded'}"
