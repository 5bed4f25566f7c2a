"""Configures DeepSpeed for `--engine zero1`, `zero2` and `zero3`, and checks that it is installed.

Trainer replaces each "auto" by a value from its own arguments.  `zero_check` checks what runs.
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

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine

AUTO = "auto"
DEEPSPEED = "deepspeed"
ACCELERATOR = "DS_ACCELERATOR"  # the device for DeepSpeed, which otherwise takes what it finds
# Trainer derives the sizes of buckets from one of these in the configuration.
SIZES = ("hidden_size", "hidden_sizes")
# A checkpoint has a folder for each step with a file of each process; in stage 3 also of weights.
STEPS = "global_step*"
STATES, PARTS = "*zero_pp_rank_*_optim_states.pt", "*zero_pp_rank_*_model_states.pt"


def make_zero_arguments(engine: Engine, bf16: bool, device: str) -> dict[str, Any]:
    """Return Trainer's arguments for ZeRO; none for another engine."""
    if not engine.zero_stage:
        return {}
    # Under Trainer's own `bf16` DeepSpeed would make the weights bfloat16.
    return {"deepspeed": configuration(engine, bf16, device), "bf16": False}


def configuration(engine: Engine, bf16: bool, device: str) -> dict[str, Any]:
    """Return DeepSpeed's configuration."""
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
    return values | ({"torch_autocast": {"enabled": True, "dtype": "bfloat16"}} if bf16 else {})


def check_deepspeed(engine: Engine, device: str) -> None:
    """Let DeepSpeed use the device.

    Raises PatchgenError PG845 where DeepSpeed is missing or uses another device, and PG846 where it
    cannot compile its operators.
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
    # DeepSpeed calls deprecated functions of torch in every step.
    warnings.filterwarnings("ignore", message="`torch.distributed", category=FutureWarning)
    try:
        from deepspeed.accelerator import get_accelerator
    except Exception as error:  # each release of DeepSpeed fails in its own way
        what = f"deepspeed cannot be imported: {' '.join(str(error).split())}"
        raise PatchgenError("PG845", where, what, "a release that goes with this torch") from error
    found = get_accelerator().device_name()
    if found != device:
        setting = f"{ACCELERATOR}={os.environ[ACCELERATOR]}"
        what = f"deepspeed takes {found} ({setting}), and the run is on {device}"
        raise PatchgenError("PG845", where, what, f"{ACCELERATOR}={device}, or none at all")


def _check_compiler(where: Location) -> None:
    """Raise PG846 without a compiler: on a Linux CPU DeepSpeed compiles its communication."""
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
    """Raise PG849 where the configuration lacks the size that Trainer derives buckets from."""
    if not engine.zero_stage:
        return
    configs = (model.config, model.config.get_text_config())
    if any(hasattr(config, size) for config in configs for size in SIZES):
        return
    what = f"the configuration of {type(model).__name__} has no {' and no '.join(SIZES)}"
    raise PatchgenError("PG849", Location(f"--engine {engine.name}"), what, "--engine fsdp2 or ddp")


def engine_at_end(engine: Engine) -> Engine:
    """Return the engine that evaluates and saves after the last step.

    Only stage 3 of ZeRO can do that without an optimizer.
    """
    return replace(engine, name="ddp", offload="") if engine.zero_stage in (1, 2) else engine


def check_checkpoint(folder: Path, engine: Engine) -> None:
    """Raise PG848 where another stage, or another number of processes, has saved the states.

    Each process saves its part of one flat buffer of all states, which ends anywhere in a weight.
    """
    written = _written(folder)
    asked = (_kind(engine.zero_stage), engine.launch.world) if engine.zero_stage else None
    if written == asked:
        return
    has, wants = _describe_states(written), _describe_states(asked)
    what = f"it has {has}, and --engine {engine.name} goes on with {wants}"
    again = (
        f"--engine {written[0]} on {written[1]} processes goes on"
        if written
        else "go on without ZeRO"
    )
    raise PatchgenError(
        "PG848",
        Location(str(folder)),
        what,
        f"{again}; --weights {folder} begins a run with its weights",
    )


def _written(folder: Path) -> tuple[str, int] | None:
    """Return the kind of ZeRO and the number of processes that saved it; None without ZeRO."""
    for step in sorted(folder.glob(STEPS)):
        return _kind(3 if any(step.glob(PARTS)) else 1), len(list(step.glob(STATES)))
    return None


def _kind(zero_stage: int) -> str:
    """Return the kind of a stage: 1 and 2 save the same files."""
    return "zero3" if zero_stage == 3 else "zero1 or zero2"


def _describe_states(written: tuple[str, int] | None) -> str:
    return (
        "whole states or DTensors"
        if written is None
        else f"states of {written[0]} on {written[1]} processes"
    )
