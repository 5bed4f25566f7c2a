"""Finds the class and the configuration that a model's name means, and makes inputs for it."""

from __future__ import annotations

import functools
import importlib
import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from patchgen import disk
from patchgen.runtime.classes import module_of
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import find_variant, known_variants
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.verifying.inputs.arguments import ANSWER, ROWS, CannotBuild, takes
from patchgen.verifying.inputs.arguments import LENGTH as FEW
from patchgen.verifying.inputs.arguments import batch as tokens
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.variants import find_heads

LENGTH = 512  # tokens of a row, by default
MASKED = 7  # one token of so many is masked, and has a label
DROPOUT = 0.1  # of tiny configurations; the usual value in training
# Dropping whole layers would make tiny models differ from each other.
LAYERDROP = "layerdrop"


@dataclass(frozen=True)
class Target:
    """A class with its configuration.

    Models change their configuration, so each model is built with a copy.
    """

    name: str
    model_class: type[PreTrainedModel]
    config: PreTrainedConfig


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose: the class, the configuration by name or file, and single values."""

    head: str | None = None
    config: str | None = None
    tiny: bool = False
    changes: tuple[tuple[str, Any], ...] = ()


def find_target(name: str, choice: Choice, start: Path | None = None) -> Target:
    """Return the model that `name` means.

    Raises PatchgenError PG824 for an unknown name, class or configuration, with similar names, and
    PG825 for a value.
    """
    kind = _kind(name)
    if kind is not None:
        config_class = CONFIG_MAPPING[kind]
        classes = _stock_classes(config_class)
    else:
        classes = _variant_classes(name, start or Path.cwd())
    model_class = _chosen(name, classes, choice.head)
    size = choice.config or (name if name in load_sizes() else None)
    return Target(name, model_class, _configured(model_class.config_class, size, choice))


def default_length(config: PreTrainedConfig) -> int:
    """Return `LENGTH`, or half of the model's positions where it has fewer.

    Half, because some models skip their first positions.
    """
    places: int = getattr(config.get_text_config(), "max_position_embeddings", None) or LENGTH
    return LENGTH if places >= LENGTH else max(places // 2, 1)


@functools.cache
def load_sizes() -> dict[str, dict[str, Any]]:
    """Return the published configurations by name."""
    return tomllib.loads(disk.text_of(Path(__file__).with_name("sizes.toml")))


def setup_error(switch: str, what: str, hint: str = "") -> PatchgenError:
    """Return problem PG825 of a switch, to be raised."""
    return PatchgenError("PG825", Location(switch), what, hint)


def _no_model(name: str, what: str, hint: str = "") -> PatchgenError:
    return PatchgenError("PG824", Location(name), what, hint)


def _kind(name: str) -> str | None:
    """Return the model type of `name`, which may be a published size."""
    if name in load_sizes():
        return str(load_sizes()[name]["model_type"])
    return name if name in CONFIG_MAPPING else None


def _stock_classes(config_class: type[PreTrainedConfig]) -> dict[str, type[PreTrainedModel]]:
    module_name = config_class.__module__.replace(".configuration_", ".modeling_")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _no_model(config_class.model_type, f"has no model here: {error}") from error
    classes = _heads(module).items()
    return {name: head for name, head in classes if head.config_class is config_class}


def _variant_classes(name: str, start: Path) -> dict[str, type[PreTrainedModel]]:
    try:
        variant = find_variant(name, start)
    except ImportError as error:  # of the gallery, and does not fit the installed transformers
        raise _no_model(name, str(error)) from error
    except ValueError as error:
        if "several variants" in str(error):
            raise _no_model(name, str(error)) from error
        variants = sorted({variant.name for variant in known_variants(start)})
        hint = did_you_mean(name, [*variants, *load_sizes(), *CONFIG_MAPPING])
        if not hint:
            hint = f"variants are {', '.join(variants) or 'none here'}; "
            hint += f"sizes are {', '.join(load_sizes())}"
        what = "is no variant, no model type of transformers and no size"
        raise _no_model(name, what, hint) from error
    return _heads(module_of(variant))


def _heads(module: Any) -> dict[str, type[PreTrainedModel]]:
    classes = {name: getattr(module, name) for name in find_heads(inspect.getsource(module))}
    return {name: item for name, item in classes.items() if getattr(item, "config_class", None)}


def _chosen(
    name: str, classes: Mapping[str, type[PreTrainedModel]], head: str | None
) -> type[PreTrainedModel]:
    if not classes:
        raise _no_model(name, "has no public class of a model")
    if head is None:
        return next(iter(classes.values()))
    for class_name, model_class in classes.items():
        if class_name.endswith(head):
            return model_class
    hint = did_you_mean(head, classes) or f"it has {', '.join(classes)}"
    raise _no_model(name, f"has no {head}", hint)


def _configured(
    config_class: type[PreTrainedConfig], size: str | None, choice: Choice
) -> PreTrainedConfig:
    changes = dict(choice.changes)
    if choice.tiny and size is not None:
        hint = "leave one out; --set changes single values"
        raise setup_error("--tiny", f"has sizes of its own, and {size} others", hint)
    try:
        if choice.tiny:
            config = tiny_config(config_class, DROPOUT)
            given = config.to_dict()
            changes = {name: 0.0 for name in given if name.endswith(LAYERDROP)} | changes
        else:
            given = _read_size(size, config_class) if size is not None else {}
            config = config_class(**given)
        _check_settings_exist(config, changes)
        # If a value had two names, the one of `given` would win.
        settings = {config.attribute_map.get(name, name): value for name, value in changes.items()}
        # Built again, so that derived values, such as the size of a head, follow the changes.
        return type(config)(**{**given, **settings}) if settings else config
    except (TypeError, KeyError, AttributeError, NotImplementedError) as error:
        what = f"{config_class.__name__} does not take this: {error}"
        raise setup_error("--set", what) from error


def _read_size(size: str, config_class: type[PreTrainedConfig]) -> dict[str, Any]:
    """Return what a published size, a folder or a file says of a configuration."""
    path = Path(size)
    if path.is_dir():
        path = path / "config.json"
    try:
        config = dict(load_sizes().get(size) or disk.read_json(path))
    except (OSError, ValueError, TypeError) as error:
        hint = f"name a file, a folder, or one of {', '.join(load_sizes())}"
        raise _no_model(size, f"is no configuration: {error}", hint) from error
    kind = config.pop("model_type", None)
    taken = [getattr(base, "model_type", None) for base in config_class.__mro__]
    if kind is not None and kind not in taken:
        raise _no_model(size, f"is a {kind}, and the model takes {config_class.model_type}")
    for of_files in ("architectures", "transformers_version"):
        config.pop(of_files, None)
    return config


def _check_settings_exist(config: PreTrainedConfig, changes: Mapping[str, Any]) -> None:
    for name in changes:
        if not hasattr(config, name):
            nearly = did_you_mean(name, config.to_dict())
            hint = nearly or "its settings are those of its config.json"
            raise setup_error(f"--set {name}", f"{type(config).__name__} has no {name}", hint)


# The decoder of an encoder-decoder needs one of them.
_ANSWERS = frozenset({"labels", "decoder_input_ids"})


def batch_for(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, batch: int, length: int
) -> dict[str, Tensor]:
    """Return the arguments of forward on the CPU: `batch` rows of `length` tokens, without padding.

    Images and audio have the size that the configuration says.  Raises ValueError where no inputs
    are known for the class.
    """
    try:
        small = make_inputs(model_class, config, Scenario())
    except CannotBuild as error:
        raise ValueError(f"{model_class.__name__}: {error}") from error
    needs_labels = config.is_encoder_decoder and _ANSWERS.isdisjoint(small.given)
    if needs_labels and "labels" in takes(model_class):
        small.given["labels"] = tokens(rows=ROWS, length=ANSWER).input_ids
    given = {name: _stretched(tensor, batch, length) for name, tensor in small.given.items()}
    if model_class.__name__.endswith("ForMaskedLM"):  # as DataCollatorForLanguageModeling masks
        masked = torch.arange(length) % MASKED == 0
        given["labels"] = given["labels"].masked_fill(~masked, -100)
    return given


def _stretched(tensor: Tensor, batch: int, length: int) -> Tensor:
    """Repeat the tensor along the rows, and along the tokens where it has such an axis."""
    if tensor.dim() == 0:  # as the number of a codebook of Bark
        return tensor
    has_tokens = not tensor.is_floating_point()
    tensor = _repeated(tensor, 0, batch)
    for axis, size in enumerate(tensor.shape[1:], 1):
        if has_tokens and size in (FEW, ANSWER):
            tensor = _repeated(tensor, axis, length)
    return tensor if has_tokens else tensor.float()


def _repeated(tensor: Tensor, axis: int, size: int) -> Tensor:
    places = torch.arange(size) % tensor.shape[axis]
    return tensor.index_select(axis, places)


def pad(given: Mapping[str, Tensor], model_class: type[PreTrainedModel]) -> dict[str, Tensor]:
    """Return the arguments with rows that end early: the k-th of N after k N-ths of its tokens.

    Raises ValueError where the class takes no text or no mask.
    """
    takes_mask = "attention_mask" in takes(model_class)
    if not takes_mask or "input_ids" not in given:
        raise ValueError(f"{model_class.__name__} takes no padded text")
    rows, length = given["input_ids"].shape
    number = torch.arange(1, rows + 1)
    ends = number * length // rows
    is_real = torch.arange(length) < ends[:, None]
    padded = dict(given)
    padded["attention_mask"] = is_real.long()
    labels = given.get("labels")
    if labels is not None and labels.shape == is_real.shape:
        padded["labels"] = labels.masked_fill(~is_real, -100)
    return padded
