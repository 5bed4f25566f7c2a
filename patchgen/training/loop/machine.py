"""Checks what this machine supports before training starts.

A switch that would be ignored, emulated or fail midway is refused with PatchgenError PG814.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers.training_args import OptimizerNames

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.training.device_memory import GIB
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.switches import compiling, refuse
from patchgen.training.optimizers import TRAINER_NAMES

EIGHT_BIT = ("bnb", "8bit")  # in the names of optimizers of bitsandbytes
AMPERE = (8, 0)
PACKAGES = (
    "torch",
    "transformers",
    "accelerate",
    "tokenizers",
    "datasets",
    "peft",
    "optuna",
    "bitsandbytes",
)


def check_machine(recipe: Recipe, device: str, *, search: bool = False) -> None:
    """Refuse what cannot run here."""
    _require_packages(recipe, search)
    on_gpu = device == "cuda"
    match recipe.precision:
        case "tf32" if not on_gpu:
            refuse(
                "precision",
                "tf32",
                "is a mode of CUDA's matrix products, and this is a CPU",
                code="PG814",
            )
        case "tf32" if torch.cuda.get_device_capability() < AMPERE:
            refuse(
                "precision",
                "tf32",
                f"{torch.cuda.get_device_name()} has none; Ampere is the first",
                code="PG814",
            )
        case "amp-fp16" if not on_gpu:
            what = "scales its loss, which is there for CUDA alone; this is a CPU"
            refuse(
                "precision", "amp-fp16", what, "--precision amp-bf16 needs no scale", code="PG814"
            )
        case "amp-bf16" | "pure-bf16" | "fsdp-mixed" if (
            on_gpu and not torch.cuda.is_bf16_supported()
        ):
            hint = f"--precision {'amp-fp16' if recipe.precision == 'amp-bf16' else 'fp32'}"
            refuse(
                "precision",
                recipe.precision,
                f"{torch.cuda.get_device_name()} has no bf16",
                hint,
                code="PG814",
            )
    optimizer = trainer_optimizer(recipe)
    if any(sign in optimizer for sign in EIGHT_BIT):
        if not on_gpu:
            refuse(
                "optim",
                recipe.optim,
                "keeps its states in 8 bits on CUDA; this is a CPU",
                code="PG814",
            )
        _require_package("bitsandbytes", f"--optim {recipe.optim}", "gpu")
    if on_gpu and recipe.memory * GIB > torch.cuda.get_device_properties(0).total_memory:
        refuse("memory", recipe.memory, "the device has less", code="PG814")
    if compiling(recipe.compile).scope != "none":
        _check_compiling(recipe, on_gpu)


def _check_compiling(recipe: Recipe, on_gpu: bool) -> None:
    """Raise PG813 for an unknown mode or backend, PG814 where inductor cannot run."""
    chosen = compiling(recipe.compile)
    if chosen.backend != "inductor":
        known = set(torch._dynamo.list_backends(exclude_tags=()))
        if chosen.scope == "whole":  # Trainer accepts only the names that Accelerate knows
            from patchgen.training.parallel.accelerate_settings import list_backends

            known &= list_backends()
        if chosen.backend not in known:
            refuse(
                "compile",
                recipe.compile,
                f"{chosen.backend} is no backend",
                f"there are {', '.join(sorted(known))}",
            )
        if chosen.mode != "default":
            refuse(
                "compile",
                recipe.compile,
                "a mode is of inductor, and another backend would pass it over",
            )
        return
    modes = torch._inductor.list_mode_options()
    if chosen.mode not in modes:
        refuse(
            "compile", recipe.compile, f"{chosen.mode} is no mode", f"there are {', '.join(modes)}"
        )
    if not on_gpu and _compiler() is None:
        what = "torch.compile writes C++ for a CPU, and no compiler is found (CXX, g++, clang++)"
        refuse("compile", recipe.compile, what, code="PG814")


def _require_packages(recipe: Recipe, search: bool) -> None:
    _require_package("accelerate", "patchgen train", "train")
    if recipe.lora:
        _require_package("peft", "--lora", "train")
    if search:
        _require_package("optuna", "--search", "train")


def _require_package(package: str, where: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        hint = f"pip install 'patchgen[{extra}]'"
        raise PatchgenError("PG814", Location(where), f"needs the package {package}", hint)


def _compiler() -> str | None:
    names = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def trainer_optimizer(recipe: Recipe) -> str:
    """Return Trainer's name of the optimizer."""
    name = TRAINER_NAMES.get(recipe.optim, recipe.optim)
    known = {str(each.value) for each in OptimizerNames}
    if name not in known:
        hint = (
            did_you_mean(name, known | TRAINER_NAMES.keys())
            or f"there are {', '.join(TRAINER_NAMES)}, and Trainer's own"
        )
        refuse("optim", recipe.optim, "is no optimizer that Trainer knows", hint)
    return name


def describe_environment(device: str) -> dict[str, Any]:
    """Return device, threads, system, and the releases of the packages used."""
    releases = {}
    for package in PACKAGES:
        try:
            releases[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    name = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": releases,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
