"""Builds the model: of a variant, a model type or a checkpoint, with the head of the task."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    set_seed,
)

from patchgen.facts.sizes import SIZES
from patchgen.runtime.attention import FASTEST, fastest_attention
from patchgen.runtime.classes import auto_entries
from patchgen.runtime.load import model_types, place_of
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import Variant, find_variant, known_variants
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean, one_line
from patchgen.training.device_memory import GIB, free_memory, is_of_memory
from patchgen.training.loop.options import Options, needs, refuse
from patchgen.training.loop.texts import TrainingData

HEADS: dict[str, Any] = {
    "causal-lm": AutoModelForCausalLM,
    "masked-lm": AutoModelForMaskedLM,
    "classification": AutoModelForSequenceClassification,
}
PEFT_TASKS = {"causal-lm": "CAUSAL_LM", "classification": "SEQ_CLS"}
SPARE = 8  # some models do not use their first positions

note = logging.getLogger("patchgen.train").warning  # something that the user should know


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from: its class, and a configuration or a checkpoint."""

    model_class: Any
    checkpoint: str = ""


def find_source(options: Options) -> Source:
    """Return the source that the model and the task of the options name.

    Raises PatchgenError PG811 where there is no such model, and PG812 where it has no head for the
    task.
    """
    name = options.model
    checkpoint = options.weights
    variant = _variant(options.model)
    if variant is None and name not in CONFIG_MAPPING:
        if checkpoint:
            refuse("weights", checkpoint, f"the model is a checkpoint already: {name}")
        checkpoint = name
    if checkpoint and options.tiny:
        refuse("tiny", "", f"the sizes of {checkpoint} are what they are")
    kind = name
    if checkpoint:
        kind = str(read_configuration(checkpoint).get("model_type"))
        takes = model_types(variant) if variant else {name}.intersection(CONFIG_MAPPING)
        if kind not in (takes or CONFIG_MAPPING):
            by = (
                f"{name} takes {' and '.join(sorted(takes))}"
                if takes
                else "no type of transformers"
            )
            raise PatchgenError("PG811", Location(checkpoint), f"is a {kind}, and {by}")
    if variant is not None:
        entries = auto_entries(variant)
        heads = {task: [*entries.get(auto, {}).values()] for task, auto in HEADS.items()}
    else:
        config_class = CONFIG_MAPPING[kind]
        heads = {
            task: [auto._model_mapping.get(config_class, None)] for task, auto in HEADS.items()
        }
    has = [task for task, classes in heads.items() if any(classes)]
    if options.task not in has:
        hint = f"it has one for {', '.join(has)}" if has else "it has none for any task here"
        what = f"has no head for {options.task}"
        raise PatchgenError("PG812", Location(variant.name if variant else kind), what, hint)
    head = heads[options.task][0]
    return Source(head[0] if isinstance(head, tuple) else head, checkpoint)


def _variant(name: str) -> Variant | None:
    """Return the variant of that name; None for a model type or what may be a checkpoint."""
    try:
        return find_variant(name)
    except ImportError as error:  # of the gallery, and does not fit the installed transformers
        raise PatchgenError("PG811", Location(name), str(error)) from error
    except ValueError as error:
        if "several variants" in str(error):
            raise PatchgenError("PG811", Location(name), str(error)) from error
    if not (name in CONFIG_MAPPING or os.path.exists(name) or "/" in name):
        names = {variant.name for variant in known_variants(Path.cwd())} | set(CONFIG_MAPPING)
        what = "is no variant, no model type of transformers and no checkpoint"
        hint = "name a variant (`patchgen list`), a model type such as bert, or a checkpoint"
        raise PatchgenError("PG811", Location(name), what, did_you_mean(name, names) or hint)
    return None


def read_configuration(checkpoint: str) -> Mapping[str, Any]:
    folder, packed = place_of(checkpoint)
    try:
        values: Mapping[str, Any] = PreTrainedConfig.get_config_dict(folder, **packed)[0]
    except (OSError, ValueError) as error:
        what = f"its configuration cannot be read: {one_line(error)}"
        raise PatchgenError("PG811", Location(checkpoint), what) from error
    if not values:
        hint = "a checkpoint has a config.json"
        raise PatchgenError("PG811", Location(checkpoint), "has no configuration", hint)
    return values


def configuration(source: Source, options: Options, data: TrainingData) -> Any:
    """Return the configuration of a new model, for this tokenizer and these labels."""
    kind = source.model_class.config_class
    known = kind().to_dict()
    common = {own: name for name, own in kind.attribute_map.items()}  # names that all models share
    changes = {"vocab_size": len(data.tokenizer), **_labelled(options, data.labels)}
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if name in known and (value := getattr(data.tokenizer, name)) is not None:
            changes[name] = value
    if options.tiny and any(common.get(name, name) == "max_position_embeddings" for name in known):
        least = SIZES["max_position_embeddings"]
        changes["max_position_embeddings"] = max(least, options.length + SPARE)
    asked = _changes(options, {**known, **kind.attribute_map})
    changes |= {common.get(name, name): value for name, value in asked.items()}
    try:
        config = tiny_config(kind, **changes) if options.tiny else kind(**changes)
    except Exception as error:  # each configuration has its own
        what = f"the configuration is refused: {one_line(error)}"
        where = Location(f"--config {' '.join(options.config)}")
        raise PatchgenError("PG813", where, what) from error
    _check_positions(config, options)
    return config


def _changes(options: Options, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `--config key=value` changes; a value is JSON, or else text."""
    changes = {}
    for text in options.config:
        name, equals, value = text.partition("=")
        if not equals:
            refuse("config", text, "is not of the form key=value")
        if name not in known:
            refuse("config", text, f"the configuration has no {name}", did_you_mean(name, known))
        try:
            changes[name] = json.loads(value)
        except json.JSONDecodeError:
            changes[name] = value
    return changes


def _labelled(options: Options, labels: Sequence[str]) -> dict[str, Any]:
    if options.task != "classification":
        return {}
    names = dict(enumerate(labels))
    return {"id2label": names, "label2id": {label: place for place, label in names.items()}}


def _check_positions(config: Any, options: Options) -> None:
    """Raise PG813 where rows are longer than the model has positions."""
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and 0 < most < options.length:
        refuse("length", options.length, f"the model has {most} positions")


def build(
    source: Source, options: Options, data: TrainingData, seed: int, autocast: str = ""
) -> Any:
    """Return the model with its initial weights, which depend on the seed only.

    `autocast` is the dtype in which products are computed, if it is not that of the weights.
    """
    set_seed(seed)
    dtype: torch.dtype = getattr(torch, options.dtype)
    if source.checkpoint:
        model, _ = load_weights(source, options, data, _copies(options))
    else:
        config = configuration(source, options, data)
        check_memory(source, config, dtype, _copies(options))
        model = source.model_class._from_config(config, dtype=dtype)
    for (
        parameter
    ) in model.parameters():  # buffers keep theirs: the angles of positions need float32
        parameter.data = parameter.data.to(dtype)
    model.config.use_cache = False
    if options.attention:
        _set_attention(model, options.attention, getattr(torch, autocast or options.dtype))
    if options.packing == "isolated":
        check_isolation(model, len(data.tokenizer))
    return _adapted(model, options) if options.lora_rank else model


def _set_attention(model: Any, asked: str, dtype: torch.dtype) -> None:
    """Let the model take the attention that is asked for, or refuse it."""
    attention = asked
    if asked == FASTEST:
        attention = fastest_attention(type(model), dtype) or model.config._attn_implementation
        note(f"fastest attention: {attention}")
    try:
        model.set_attn_implementation(attention)
    except (ValueError, ImportError) as error:
        refuse("attention", asked, one_line(error))
    if model.config._attn_implementation != attention:
        refuse("attention", asked, f"{type(model).__name__} has attention of its own only")


def _copies(options: Options) -> int:
    """Return how many tensors of the size of its weights a model needs at least."""
    return 1 if options.lora_rank else 2


def check_memory(
    source: Source, config: Any, dtype: torch.dtype, copies: int, device: str = "cpu"
) -> None:
    """Raise PG816 where the weights do not fit so many times: with gradients, twice."""
    with torch.device("meta"):
        count = sum(each.numel() for each in source.model_class(config).parameters())
    needed = count * dtype.itemsize * copies
    free = free_memory(device)
    if free is not None and needed > free:
        what = f"{count:,} parameters, with what is kept beside them, take {needed / GIB:.1f} GiB, "
        what += f"and {free / GIB:.1f} GiB are free"
        hint = "a smaller model; `patchgen train` also takes --tiny, "
        hint += "--config num_hidden_layers=4 or --lora_rank 8"
        at = Location(source.checkpoint or source.model_class.__name__)
        raise PatchgenError("PG816", at, what, hint)


def load_weights(
    source: Source, options: Options, data: TrainingData, copies: int = 1, device: str = "cpu"
) -> tuple[Any, tuple[str, ...]]:
    """Return the model with the weights of its checkpoint, and the names of those that lack there.

    Raises PatchgenError PG811 where it cannot be loaded, PG813 where the data does not fit the
    model, and PG816 where the model does not fit into memory `copies` times.
    """
    model_class = source.model_class
    default = model_class.config_class()
    changes = _changes(options, {**default.to_dict(), **default.attribute_map})
    changes |= _labelled(options, data.labels)
    where = Location(source.checkpoint)
    dtype: torch.dtype = getattr(torch, options.dtype)
    folder, packed = place_of(source.checkpoint)
    asked = {"dtype": dtype, "output_loading_info": True, **packed, **changes}
    if packed and hasattr(
        transformers, "GgufConfig"
    ):  # else they may stay packed, and cannot learn
        asked["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:  # transformers logs which weights are missing, and which it does not take
        config = default.from_pretrained(folder, **packed)
        check_memory(source, config, dtype, copies, device)
        model, about = model_class.from_pretrained(folder, **asked)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if is_of_memory(error):
            raise
        what = f"cannot be loaded: {one_line(error)}"
        raise PatchgenError("PG811", where, what) from error
    held = model.get_input_embeddings().weight.shape[0]
    if len(data.tokenizer) > held:
        what = f"the tokenizer has {len(data.tokenizer)} tokens, and the model {held}"
        raise PatchgenError("PG813", where, what, "--tokenizer of the checkpoint's family")
    _check_positions(model.config, options)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = data.tokenizer.pad_token_id
    return model, tuple(sorted(map(str, about["missing_keys"])))


def _adapted(model: Any, options: Options) -> Any:
    peft = needs("peft", f"--lora_rank {options.lora_rank}")
    try:
        asked = {"lora_alpha": 16, "target_modules": "all-linear"} | json.loads(options.lora_kwargs)
        config = peft.LoraConfig(
            task_type=PEFT_TASKS.get(options.task), r=options.lora_rank, **asked
        )
        return peft.get_peft_model(model, config)
    except (ValueError, TypeError) as error:
        refuse("lora_kwargs", options.lora_kwargs, one_line(error))


def check_isolation(model: Any, vocabulary: int) -> None:
    """Raise PG812 where a packed row gives other logits than its documents alone.

    The model computes two documents of random tokens in both ways.
    """
    draw = torch.Generator().manual_seed(0)
    first = torch.randint(vocabulary, (1, 7), generator=draw)
    second = torch.randint(vocabulary, (1, 9), generator=draw)
    row = torch.cat([first, second], 1)
    place = torch.cat([torch.arange(7), torch.arange(9)])[None]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        packed = model(input_ids=row, position_ids=place).logits[:, 7:]
        alone = model(input_ids=second, position_ids=place[:, 7:]).logits
    model.train(was_training)
    difference = (packed - alone).abs().max() / alone.abs().max()
    bound = 1e-3 if model.dtype == torch.float32 else 5e-2
    if not difference < bound:
        what = "in this model the documents of a packed row see each other"
        hint = "take --packing concatenated, or a variant that isolates documents"
        raise PatchgenError("PG812", Location("--packing isolated"), what, hint)
