"""Compiles repeated layers one by one, and checks that layers can be checkpointed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.switches import Compiling, checkpointing


def find_repeated_layers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of each list of layers of one class; layers inside layers are skipped."""
    for child in model.children():
        if (
            isinstance(child, nn.ModuleList)
            and len(child) > 1
            and len({type(layer) for layer in child}) == 1
        ):
            yield from child
        else:
            yield from find_repeated_layers(child)


def compile_layers(model: nn.Module, chosen: Compiling) -> int:
    """Compile each repeated layer in place and return their number.

    Layers of one class share one compilation.
    """
    layers = list(find_repeated_layers(model))
    for layer in layers:
        layer.compile(backend=chosen.backend, **_mode(chosen))
    if not layers:
        what = "has no list of layers of one class"
        raise PatchgenError("PG812", Location("--compile regional"), what, "--compile whole")
    return len(layers)


def _mode(chosen: Compiling) -> dict[str, Any]:
    return {"mode": chosen.mode} if chosen.backend == "inductor" else {}


def check_checkpointing(model: Any, recipe: Recipe) -> None:
    """Raise PG812 where the model does not support activation checkpointing."""
    chosen = checkpointing(recipe.checkpoint)
    if chosen.policy == "none":
        return
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # of LoRA
    where = Location(f"--checkpoint {recipe.checkpoint}")
    if not inner.supports_gradient_checkpointing:
        what = f"{type(inner).__name__} cannot checkpoint its layers"
        raise PatchgenError(
            "PG812", where, what, "`patchgen new MODEL --with checkpoint` writes a variant that can"
        )
