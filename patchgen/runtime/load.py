"""A checkpoint in the class of a variant that its configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.runtime.classes import ModelClass, model_classes, module_of, pairs
from patchgen.runtime.inert import (
    warn_where_adapters_miss_experts,
    warn_where_the_loss_is_inert,
)
from patchgen.runtime.variants import Variant, known_variants
from patchgen.syntax.errors import did_you_mean

# Arguments that say where to look for a checkpoint; all others go to the model.
_WHERE = (
    "cache_dir",
    "force_download",
    "local_files_only",
    "proxies",
    "revision",
    "subfolder",
    "token",
)


def load_into(
    variant: Variant,
    checkpoint: str | os.PathLike[str],
    head: str | None,
    kwargs: Mapping[str, Any],
) -> PreTrainedModel:
    """Load `checkpoint` (a folder, or an id on the Hub) into a class of `variant`.

    `kwargs` are those of `from_pretrained`.  ValueError where there is no such class, and for a
    checkpoint of another kind of model, which `from_pretrained` would take with a warning.
    """
    configuration = read_configuration(checkpoint, kwargs)
    model = chosen_class(variant, configuration, head)
    loaded: Any = model.from_pretrained(checkpoint, **kwargs)
    loaded_model = loaded[0] if isinstance(loaded, tuple) else loaded
    text = variant.text()
    warn_where_the_loss_is_inert(loaded_model, text)
    warn_where_adapters_miss_experts(loaded_model, text)
    return loaded


def place_of(checkpoint: str) -> tuple[str, dict[str, str]]:
    """The folder of a checkpoint, or its id on the Hub, and what `from_pretrained` needs beside it.

    A checkpoint may be a GGUF file, or a folder that has one of them and no configuration.
    """
    path = Path(checkpoint)
    packed = [path] if path.suffix == ".gguf" else [*path.glob("*.gguf")]
    if len(packed) != 1 or (path / "config.json").exists():
        return checkpoint, {}
    return str(packed[0].parent), {"gguf_file": packed[0].name}


def read_configuration(
    checkpoint: str | os.PathLike[str], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """What the configuration of a checkpoint says, or that which `kwargs` gives in its place."""
    given = kwargs.get("config")
    if isinstance(given, PreTrainedConfig):
        return given.to_dict()
    where = {name: kwargs[name] for name in _WHERE if name in kwargs}
    configuration: dict[str, Any]
    configuration, _ = PreTrainedConfig.get_config_dict(given or checkpoint, **where)
    return configuration


def chosen_class(
    variant: Variant, configuration: Mapping[str, Any], head: str | None = None
) -> ModelClass:
    """The variant's class for a configuration: `head`, or that of its first known architecture.

    ValueError as `load_into` says.
    """
    wanted = (head,) if head is not None else tuple(configuration.get("architectures") or ())
    if not wanted:
        raise ValueError(
            f"the checkpoint's configuration names no architecture; say head={_names(variant)}"
        )
    by_name = {parent.__name__: model for model, parent in pairs(variant)}
    by_name |= {model.__name__: model for model in model_classes(module_of(variant))}
    _refuse_another_model(variant, configuration)
    for name in wanted:
        if name in by_name:
            return by_name[name]
    hint = did_you_mean(wanted[0], by_name) or f"it has {_names(variant)}"
    raise ValueError(f"{variant.name} has no {' or '.join(wanted)}; {hint}")


def model_types(variant: Variant) -> frozenset[str]:
    """The kinds of checkpoints that the variant takes: its own, and its parent's."""
    return frozenset(item.config_class.model_type for pair in pairs(variant) for item in pair)


def _refuse_another_model(variant: Variant, configuration: Mapping[str, Any]) -> None:
    kind = configuration.get("model_type")
    ours = model_types(variant)
    if kind in ours or kind is None:
        return
    begin = f"{kind}_"
    others = [other.name for other in known_variants(variant.home) if other.name.startswith(begin)]
    hint = f"; variants of {kind}: {', '.join(others)}" if others else ""
    raise ValueError(
        f"the checkpoint is a {kind}, and {variant.name} takes {' and '.join(sorted(ours))}{hint}"
    )


def _names(variant: Variant) -> str:
    return ", ".join(model.__name__ for model in model_classes(module_of(variant)))
