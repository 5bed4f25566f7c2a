"""Translates a recipe into transformers' `TrainingArguments`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from patchgen.runtime.checkpointing import options_of
from patchgen.training.loop.machine import trainer_optimizer
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.switches import checkpointing, compiling, loading, refuse


def make_arguments(
    recipe: Recipe, output: Path, device: str, batch_size: int, **changes: Any
) -> TrainingArguments:
    """Return the arguments of Trainer; `changes` replace what the recipe says.

    Raises PatchgenError PG813 where Trainer refuses an argument.
    """
    given: dict[str, Any] = {
        "output_dir": str(output),
        "per_device_train_batch_size": batch_size,
        "per_device_eval_batch_size": batch_size,
        "gradient_accumulation_steps": recipe.grad_accum,
        "num_train_epochs": recipe.epochs,
        "max_steps": recipe.steps or -1,
        "learning_rate": recipe.learning_rate,
        "lr_scheduler_type": recipe.schedule,
        "warmup_steps": recipe.warmup,
        "weight_decay": recipe.weight_decay,
        "optim": trainer_optimizer(recipe),
        "seed": recipe.seed,
        "full_determinism": recipe.deterministic,
        "use_cpu": device == "cpu",
        "prediction_loss_only": recipe.task != "classification",
        "remove_unused_columns": False,
        "include_num_input_tokens_seen": "non_padding",
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "report_to": "none",
        **_every(recipe),
        **_precision(recipe, device),
        **_checkpointing(recipe),
        **_compiling(recipe),
        **_loading(recipe, device),
        **changes,
    }
    try:
        return TrainingArguments(**given)
    except (ValueError, ImportError) as error:
        refuse("schedule", recipe.schedule, " ".join(str(error).split()))


def _every(recipe: Recipe) -> dict[str, Any]:
    """Return how often Trainer logs, evaluates and saves; 0 means only at the end."""
    given: dict[str, Any] = {"logging_steps": recipe.log_every, "save_total_limit": recipe.keep}
    for name, every in (("eval", recipe.eval_every), ("save", recipe.save_every)):
        given |= (
            {f"{name}_strategy": "steps", f"{name}_steps": every}
            if every
            else {f"{name}_strategy": "no"}
        )
    return given


def _precision(recipe: Recipe, device: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "fp16": recipe.precision == "amp-fp16",
        "bf16": recipe.precision == "amp-bf16",
    }
    # Set in either case: the environment may have changed torch's own default.
    return {**given, "tf32": recipe.precision == "tf32"} if device == "cuda" else given


def _checkpointing(recipe: Recipe) -> dict[str, Any]:
    chosen = checkpointing(recipe.checkpoint)
    if chosen.policy == "none":
        return {}
    # Trainer passes `every_n_layers` to the model, and the rest to torch.
    options: dict[str, Any] = {"every_n_layers": chosen.every} if chosen.every > 1 else {}
    options |= options_of(chosen.policy)
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    name = (
        "activation" if "activation_checkpointing" in known else "gradient"
    )  # renamed in transformers 5.2x
    return {f"{name}_checkpointing": True, f"{name}_checkpointing_kwargs": options}


def _compiling(recipe: Recipe) -> dict[str, Any]:
    chosen = compiling(recipe.compile)
    if chosen.scope != "whole":  # regional: see `compiled`
        return {}
    return {
        "torch_compile": True,
        "torch_compile_backend": chosen.backend,
        "torch_compile_mode": chosen.mode,
    }


def _loading(recipe: Recipe, device: str) -> dict[str, Any]:
    chosen = loading(recipe.loader)
    given: dict[str, Any] = {
        "dataloader_num_workers": chosen.workers,
        "dataloader_pin_memory": chosen.pinned and device == "cuda",
    }
    return {**given, "dataloader_prefetch_factor": chosen.prefetch} if chosen.workers else given
