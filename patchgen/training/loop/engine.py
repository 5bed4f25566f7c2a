"""Chooses the device, and checks that the engine supports the switches of the recipe."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.machine import trainer_optimizer
from patchgen.training.loop.recipe import AUTO, Recipe
from patchgen.training.loop.switches import refuse
from patchgen.training.parallel.engine import ACCELERATED, Engine
from patchgen.training.precision import ACCELERATE

COMPILED = "ACCELERATE_DYNAMO_BACKEND"


def choose_device(asked: str) -> str:
    """Return "cuda" or "cpu".  Raises PatchgenError PG814 for a device that is missing."""
    if asked == "cuda" and not torch.cuda.is_available():
        refuse("device", asked, "this torch sees no CUDA device", code="PG814")
    if asked == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    return asked


def check_launcher(recipe: Recipe, environment: Mapping[str, str]) -> None:
    """Raise PG833 where a launcher sets a precision or a compiler other than the recipe's.

    Accelerate would use the launcher's, without a message.
    """
    launched = environment.get(ACCELERATED, "no").lower()
    if launched != "no" and ACCELERATE.get(launched, launched) != recipe.precision:
        what = f"the launcher says {launched} ({ACCELERATED}), and the recipe {recipe.precision}"
        hint = (
            "launch with --mixed_precision no; patchgen's own --precision is what is written down"
        )
        raise PatchgenError("PG833", Location(f"--precision {recipe.precision}"), what, hint)
    compiler = environment.get(COMPILED, "no").lower()
    if compiler != "no":
        what = f"the launcher says {compiler} ({COMPILED}), and the recipe {recipe.compile}"
        raise PatchgenError(
            "PG833",
            Location(f"--compile {recipe.compile}"),
            what,
            "launch with --dynamo_backend no",
        )


# Other optimizers have not been compared with one process on sharded weights or states.
SPREAD_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd")
MIXED = (
    "fsdp2",
    "ep",
    "fsdp2+tp",
)  # engines that gather weights, and have been shown to do it in bfloat16


def check_engine_switches(recipe: Recipe, engine: Engine, *, search: bool = False) -> None:
    """Raise PG837 or PG813 for switches that the engine does not support.

    PG837 is for what needs one process, or whole weights; PG813 for what needs gathered weights.
    """
    if recipe.precision == "fsdp-mixed" and engine.name not in MIXED:
        what = f"gathers weights in bfloat16, and {engine.name} "
        what += "gathers none" if not engine.gathers_weights else "has not been shown with it"
        hint = f"--precision amp-bf16 computes in it; engines that gather so: {', '.join(MIXED)}"
        refuse("precision", "fsdp-mixed", what, hint)
    if not engine.is_distributed:
        return
    if search:
        what = "tries batches and settings on one process"
        raise PatchgenError(
            "PG837", Location("--search"), what, "search on one process, and train on several"
        )
    if recipe.asked_batch is None:
        what = "needs one process: of several, one without memory would leave the others waiting"
        hint = "find the size on one process, with --memory; each process takes as many rows"
        raise PatchgenError("PG837", Location("--batch-size auto"), what, hint)
    if not (engine.shards_weights or engine.zero_stage):
        return
    if recipe.lora:
        what = f"has been shown with whole weights and states alone, and {engine.name} spreads them"
        raise PatchgenError("PG837", Location(f"--lora {recipe.lora}"), what, "--engine ddp")
    if trainer_optimizer(recipe) not in SPREAD_OPTIMIZERS:
        what = f"has been shown with whole weights and states alone, and {engine.name} spreads them"
        raise PatchgenError(
            "PG837", Location(f"--optim {recipe.optim}"), what, "--optim fused, foreach or sgd"
        )
    if recipe.precision == "amp-fp16":
        what = f"scales its gradients, which has not been tried where {engine.name} spreads them"
        raise PatchgenError("PG837", Location("--precision amp-fp16"), what, "--precision amp-bf16")
    if recipe.precision == "pure-bf16":
        what = f"has not been tried where {engine.name} lays weights out"
        raise PatchgenError(
            "PG837", Location("--precision pure-bf16"), what, "--precision amp-bf16"
        )
    if recipe.compile != "none":
        what = f"has not been tried where {engine.name} lays weights out"
        raise PatchgenError("PG837", Location(f"--compile {recipe.compile}"), what, "--engine ddp")
