"""Builds the model: of a variant, a model type or a checkpoint, with the head of the task."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
)

from patchgen.facts.sizes import SIZES
from patchgen.runtime.classes import auto_entries
from patchgen.runtime.load import model_types
from patchgen.runtime.variants import Variant, find_variant, known_variants
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.switches import Adapting, adapting, config_changes, refuse
from patchgen.training.precision import weights_in
from patchgen.verify.configs.tiny import tiny_config

HEADS: dict[str, Any] = {
    "causal-lm": AutoModelForCausalLM,
    "masked-lm": AutoModelForMaskedLM,
    "classification": AutoModelForSequenceClassification,
}
PEFT_TASKS = {"causal-lm": "CAUSAL_LM", "classification": "SEQ_CLS"}
MOST_NAMED = 3  # names of weights in one message
SPARE = 8  # some models do not use their first positions


Note: TypeAlias = Callable[[str], None]


def ignore_note(text: str) -> None:
    """Ignore the note."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from: its class, and a configuration or a checkpoint."""

    name: str
    model_class: Any
    checkpoint: str = ""
    variant: Variant | None = None

    @property
    def config_class(self) -> Any:
        """Return the class of its configuration."""
        return self.model_class.config_class


def find_source(recipe: Recipe) -> Source:
    """Return the source that the recipe's model and task name.

    Raises PatchgenError PG811 where there is no such model, and PG812 where it has no head for the
    task.
    """
    variant = _variant(recipe.model)
    checkpoint = recipe.start
    if variant is None and recipe.model not in CONFIG_MAPPING:
        if not (os.path.isdir(recipe.model) or "/" in recipe.model):
            _refuse_name(recipe.model)
        if checkpoint:
            refuse("from", checkpoint, f"the model is a checkpoint already: {recipe.model}")
        checkpoint = recipe.model
    stored = _read_configuration(checkpoint) if checkpoint else {}
    if checkpoint and recipe.tiny:
        refuse("tiny", "", f"the sizes of {checkpoint} are what they are")
    kind = stored.get("model_type") if checkpoint else recipe.model
    if variant is not None:
        if checkpoint and kind not in model_types(variant):
            takes = " and ".join(sorted(model_types(variant)))
            raise PatchgenError(
                "PG811", Location(checkpoint), f"is a {kind}, and {variant.name} takes {takes}"
            )
        return Source(recipe.model, _head_of_variant(variant, recipe.task), checkpoint, variant)
    if kind not in CONFIG_MAPPING:
        raise PatchgenError(
            "PG811", Location(checkpoint), f"is a {kind}, which transformers does not know"
        )
    if checkpoint and recipe.model in CONFIG_MAPPING and kind != recipe.model:
        raise PatchgenError("PG811", Location(checkpoint), f"is a {kind}, and not a {recipe.model}")
    return Source(recipe.model, _head_of_type(str(kind), recipe.task), checkpoint)


def _variant(name: str) -> Variant | None:
    try:
        return find_variant(name)
    except ValueError as error:
        if "several variants" in str(error):
            raise PatchgenError("PG811", Location(name), str(error)) from error
        return None


def _refuse_name(name: str) -> None:
    from pathlib import Path

    variants = {variant.name for variant in known_variants(Path.cwd())}
    hint = did_you_mean(name, variants | set(CONFIG_MAPPING)) or (
        "name a variant (`patchgen list`), a model type such as bert, or a checkpoint"
    )
    raise PatchgenError(
        "PG811",
        Location(name),
        "is no variant, no model type of transformers and no checkpoint",
        hint,
    )


def _read_configuration(checkpoint: str) -> Mapping[str, Any]:
    try:
        values: Mapping[str, Any] = PreTrainedConfig.get_config_dict(checkpoint)[0]
    except (OSError, ValueError) as error:
        what = f"its configuration cannot be read: {' '.join(str(error).split())}"
        raise PatchgenError("PG811", Location(checkpoint), what) from error
    if not values:
        raise PatchgenError(
            "PG811", Location(checkpoint), "has no configuration", "a checkpoint has a config.json"
        )
    return values


def _head_of_variant(variant: Variant, task: str) -> Any:
    entries = auto_entries(variant)
    found = entries.get(HEADS[task], {})
    if not found:
        has = [name for name, auto in HEADS.items() if entries.get(auto)]
        _refuse_task(variant.name, task, has)
    return next(iter(found.values()))[0]


def _head_of_type(kind: str, task: str) -> Any:
    config_class = CONFIG_MAPPING[kind]
    found = HEADS[task]._model_mapping.get(config_class, None)
    if found is None:
        has = [
            name
            for name, auto in HEADS.items()
            if auto._model_mapping.get(config_class, None) is not None
        ]
        _refuse_task(kind, task, has)
    return found[0] if isinstance(found, tuple) else found


def _refuse_task(name: str, task: str, has: Sequence[str]) -> None:
    hint = f"it has one for {', '.join(has)}" if has else "it has none for any task here"
    raise PatchgenError("PG812", Location(name), f"has no head for {task}", hint)


def configuration(source: Source, recipe: Recipe, tokenizer: Any, labels: Sequence[str]) -> Any:
    """Return the configuration of a new model, for this tokenizer and these labels."""
    kind = source.config_class
    default = kind()
    known = default.to_dict()
    common = {own: name for name, own in kind.attribute_map.items()}  # names that all models share
    asked = config_changes(recipe, {**known, **kind.attribute_map})
    changes = {
        "vocab_size": len(tokenizer),
        **_special(tokenizer, known),
        **_labelled(recipe, labels),
    }
    if recipe.tiny and any(common.get(name, name) == "max_position_embeddings" for name in known):
        changes["max_position_embeddings"] = max(
            SIZES["max_position_embeddings"], recipe.length + SPARE
        )
    changes |= {common.get(name, name): value for name, value in asked.items()}
    make = (lambda: tiny_config(kind, **changes)) if recipe.tiny else (lambda: kind(**changes))
    made = _made(recipe, make)
    check_positions(made, recipe)
    return made


def _made(recipe: Recipe, make: Any) -> Any:
    try:
        return make()
    except Exception as error:  # each configuration has its own
        message = f"the configuration is refused: {' '.join(str(error).split())}"
        raise PatchgenError(
            "PG813", Location(" ".join(f"--config {text}" for text in recipe.config)), message
        ) from error


def _special(tokenizer: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    return {
        name: value
        for name in names
        if name in known and (value := getattr(tokenizer, name)) is not None
    }


def _labelled(recipe: Recipe, labels: Sequence[str]) -> dict[str, Any]:
    if recipe.task != "classification":
        return {}
    names = dict(enumerate(labels))
    return {"id2label": names, "label2id": {label: place for place, label in names.items()}}


def check_positions(config: Any, recipe: Recipe) -> None:
    """Raise PG813 where rows are longer than the model has positions."""
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and 0 < most < recipe.length:
        refuse("length", recipe.length, f"the model has {most} positions")


def build(
    source: Source, recipe: Recipe, tokenizer: Any, labels: Sequence[str], note: Note = ignore_note
) -> Any:
    """Return the model in the dtype of the precision, with LoRA where it is asked for.

    `note` gets a message on weights that the checkpoint lacks, or that the model does not use.
    Random weights come from the global generator, which the caller has seeded.
    """
    if source.checkpoint:
        model = _loaded(source, recipe, labels, note)
        held = model.get_input_embeddings().weight.shape[0]
        if len(tokenizer) > held:
            hint = f"--vocabulary {held}, where the checkpoint brings no tokenizer"
            what = f"the tokenizer has {len(tokenizer)} tokens, and the model {held}"
            raise PatchgenError("PG813", Location(source.checkpoint), what, hint)
        check_positions(model.config, recipe)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = tokenizer.pad_token_id
    else:
        config = configuration(source, recipe, tokenizer, labels)
        model = source.model_class._from_config(config, dtype=weight_dtype(recipe))
    if weight_dtype(recipe) == torch.float32:
        model = model.float()
    model.config.use_cache = False
    chosen = adapting(recipe.lora)
    return model if chosen is None else _adapted(model, recipe, chosen)


def weight_dtype(recipe: Recipe) -> torch.dtype:
    """Return the dtype of weights, gradients and optimizer states."""
    dtype: torch.dtype = getattr(torch, weights_in(recipe.precision))
    return dtype


def _loaded(source: Source, recipe: Recipe, labels: Sequence[str], note: Note) -> Any:
    default = source.config_class()
    changes = config_changes(recipe, {**default.to_dict(), **default.attribute_map})
    try:
        model, loading_info = source.model_class.from_pretrained(
            source.checkpoint,
            dtype=weight_dtype(recipe),
            output_loading_info=True,
            **changes,
            **_labelled(recipe, labels),
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        what = f"cannot be loaded: {' '.join(str(error).split())}"
        raise PatchgenError("PG811", Location(source.checkpoint), what) from error
    for kind, meaning in (
        ("missing_keys", "has no {}: drawn"),
        ("unexpected_keys", "has {}: not taken"),
    ):
        if names := sorted(loading_info[kind]):
            listed = ", ".join(names[:MOST_NAMED]) + (
                f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            )
            note(f"{source.checkpoint} {meaning.format(listed)}")
    return model


def _adapted(model: Any, recipe: Recipe, chosen: Adapting) -> Any:
    import peft

    targets = chosen.targets[0] if chosen.targets == ("all-linear",) else list(chosen.targets)
    config = peft.LoraConfig(
        task_type=PEFT_TASKS.get(recipe.task),
        r=chosen.rank,
        lora_alpha=chosen.alpha,
        lora_dropout=chosen.dropout,
        target_modules=targets,
    )
    try:
        return peft.get_peft_model(model, config)
    except ValueError as error:
        refuse("lora", recipe.lora, " ".join(str(error).split()))


def count_parameters(source: Source, recipe: Recipe, tokenizer: Any, labels: Sequence[str]) -> int:
    """Return the number of parameters of a new model, without allocating them."""
    config = configuration(source, recipe, tokenizer, labels)
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in source.model_class(config).parameters())
