"""What is DeepSpeed told of `--engine zero1`, `zero2` and `zero3`, and is it there?

In: an `Engine`.  Out: what Trainer is to hand to it, of which "auto" is filled by Trainer from its own arguments, and
the weights that it gives back.  Whether ZeRO did as it was told is asked in `partitioned`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgen.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine

AUTO = "auto"
DEEPSPEED = "deepspeed"
ACCELERATOR = (
    "DS_ACCELERATOR"  # what tells DeepSpeed which device to take; else it takes what it finds
)
SIZES = (
    "hidden_size",
    "hidden_sizes",
)  # of a configuration, by one of which Trainer fills the sizes of buckets
# Of a checkpoint: a folder for each step, in it a file of each process; in stage 3 its weights too are such files.
STEPS = "global_step*"
STATES, PARTS = "*zero_pp_rank_*_optim_states.pt", "*zero_pp_rank_*_model_states.pt"


def make_zero_arguments(engine: Engine, precision: str, device: str) -> dict[str, Any]:
    """What Trainer is told, in its own words; nothing for another engine."""
    if not engine.zero_stage:
        return {}
    # Under Trainer's own `bf16` DeepSpeed would make the weights bfloat16.
    return {"deepspeed": configuration(engine, precision, device), "bf16": False}


def configuration(engine: Engine, precision: str, device: str) -> dict[str, Any]:
    """DeepSpeed's own configuration."""
    zero: dict[str, Any] = {"stage": engine.zero_stage, "reduce_bucket_size": AUTO}
    if engine.zero_stage == 3:
        zero |= {
            "stage3_prefetch_bucket_size": AUTO,
            "stage3_param_persistence_threshold": AUTO,
            "stage3_gather_16bit_weights_on_model_save": True,  # of float32 too, whatever its name is
        }
    offloaded = {"device": "cpu", "pin_memory": device == "cuda"}
    if engine.offload:
        zero["offload_optimizer"] = offloaded
    if engine.offload == "parameters":
        zero["offload_param"] = offloaded
    told: dict[str, Any] = {
        "zero_optimization": zero,
        "train_batch_size": AUTO,
        "train_micro_batch_size_per_gpu": AUTO,
        "gradient_accumulation_steps": AUTO,
        "gradient_clipping": AUTO,
        # Else Accelerate puts DeepSpeed's Adam in the place of whatever optimizer was asked for.
        "zero_force_ds_cpu_optimizer": False,
    }
    return told | (
        {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}
        if precision == "amp-bf16"
        else {}
    )


def check_deepspeed(engine: Engine, device: str) -> None:
    """Let DeepSpeed take the device.

    Raises PatchgenError PG845 where it is not installed or takes another one, PG846 where it cannot compile what it
    needs.
    """
    if not engine.zero_stage:
        return
    where = Location(f"--engine {engine.name}")
    if importlib.util.find_spec(DEEPSPEED) is None:
        raise PatchgenError(
            "PG845", where, "needs the package deepspeed", "pip install 'patchgen[deepspeed]'"
        )
    if device == "cpu":
        _check_compiler(where)
    os.environ.setdefault(ACCELERATOR, device)
    # Of torch's own names, which DeepSpeed calls in every step.
    warnings.filterwarnings("ignore", message="`torch.distributed", category=FutureWarning)
    try:
        from deepspeed.accelerator import get_accelerator
    except (
        Exception
    ) as error:  # it imports a good deal of itself, and each release fails in its own way
        what = f"deepspeed cannot be imported: {' '.join(str(error).split())}"
        raise PatchgenError("PG845", where, what, "a release that goes with this torch") from error
    found = get_accelerator().device_name()
    if found != device:
        what = f"deepspeed takes {found} ({ACCELERATOR}={os.environ[ACCELERATOR]}), and the run is on {device}"
        raise PatchgenError("PG845", where, what, f"{ACCELERATOR}={device}, or none at all")


def _check_compiler(where: Location) -> None:
    """On a CPU of Linux DeepSpeed compiles how processes share memory, at the first use."""
    if sys.platform != "linux":
        return
    compilers = (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    if not any(name and shutil.which(name) for name in compilers):
        what = "deepspeed compiles C++ for a CPU, and no compiler is found (CXX, c++, g++, clang++)"
        raise PatchgenError("PG846", where, what, "install one; --engine ddp and fsdp2 need none")
    if shutil.which("ninja") is None:
        what = "deepspeed compiles C++ for a CPU by ninja, which is not found in PATH"
        raise PatchgenError("PG846", where, what, "pip install ninja")


def check_sizes(model: Any, engine: Engine) -> None:
    """PG849 where Trainer finds no size by which it would fill those of buckets."""
    if not engine.zero_stage:
        return
    configs = (model.config, model.config.get_text_config())
    if any(hasattr(config, size) for config in configs for size in SIZES):
        return
    what = f"the configuration of {type(model).__name__} has no {' and no '.join(SIZES)}"
    raise PatchgenError("PG849", Location(f"--engine {engine.name}"), what, "--engine fsdp2 or ddp")


def gather_weights(trainer: Any, engine: Engine) -> dict[str, Any] | None:
    """What is saved of a model; None where that is what the model itself holds.

    Of the processes the first has the weights; each has to call.
    """
    if engine.zero_stage != 3 or trainer.deepspeed is None:
        return None
    told: dict[str, Any] | None = trainer.accelerator.get_state_dict(trainer.deepspeed)
    return told


def engine_at_end(engine: Engine) -> Engine:
    """What evaluates and saves where no step is left: of ZeRO stage 3 alone does that without an optimizer."""
    return replace(engine, name="ddp", offload="") if engine.zero_stage in (1, 2) else engine


def check_checkpoint(folder: Path, engine: Engine) -> None:
    """PG848 where a checkpoint's states are those of another stage or of another number of processes.

    Each process has written its part of all states in one row, cut where a process ended and not where a weight does.
    """
    written = _written(folder)
    asked = (_kind(engine.zero_stage), engine.launch.world) if engine.zero_stage else None
    if written == asked:
        return
    what = f"it has {_told(written)}, and --engine {engine.name} goes on with {_told(asked)}"
    again = (
        f"--engine {written[0]} on {written[1]} processes goes on"
        if written
        else "go on without ZeRO"
    )
    raise PatchgenError(
        "PG848",
        Location(str(folder)),
        what,
        f"{again}; --from {folder} begins a run with its weights",
    )


def _written(folder: Path) -> tuple[str, int] | None:
    """The kind of ZeRO and the number of processes that wrote a checkpoint; None where it was not ZeRO."""
    for step in sorted(folder.glob(STEPS)):
        return _kind(3 if any(step.glob(PARTS)) else 1), len(list(step.glob(STATES)))
    return None


def _kind(zero_stage: int) -> str:
    """Stages 1 and 2 write the same."""
    return "zero3" if zero_stage == 3 else "zero1 or zero2"


def _told(written: tuple[str, int] | None) -> str:
    return (
        "whole states or DTensors"
        if written is None
        else f"states of {written[0]} on {written[1]} processes"
    )
