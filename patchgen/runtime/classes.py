"""The classes of a variant: its models, the parent's class of each, and their configurations.

Imports the variant and its parent.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import transformers
from transformers import PreTrainedModel

from patchgen.runtime.release import warn_of_another_release
from patchgen.runtime.variants import Variant

ModelClass: TypeAlias = "type[PreTrainedModel]"
# By auto class, then by class of the configuration.
Entries: TypeAlias = "dict[Any, dict[Any, tuple[ModelClass, ...]]]"


def module_of(variant: Variant) -> ModuleType:
    """The variant's module, imported.

    ValueError where Python takes another file for it, such as that of another project or of an
    installed package; ImportError, with the release of transformers that it was made for, where it
    does not import under another one.
    """
    if str(variant.home) not in sys.path:
        sys.path.insert(0, str(variant.home))
    try:
        module = importlib.import_module(variant.module)
    except (ImportError, AttributeError, TypeError) as error:
        if variant.transformers in ("", transformers.__version__):
            raise
        raise ImportError(_made_for_another(variant, error)) from error
    warn_of_another_release(variant)
    if module.__file__ is None or Path(module.__file__).resolve() != variant.path.resolve():
        raise ValueError(
            f"{variant.module} is {module.__file__} in this process, and not {variant.path}"
        )
    return module


def _made_for_another(variant: Variant, error: Exception) -> str:
    return (
        f"{variant.path} was made for transformers {variant.transformers}, "
        f"and this is {transformers.__version__}: {error}. "
        f"Install transformers {variant.transformers}, or run `patchgen convert` with this release"
    )


def model_classes(module: ModuleType) -> tuple[ModelClass, ...]:
    """The public models of a modeling module, in its order."""
    names = getattr(module, "__all__", None)
    if not names:
        names = [name for name in vars(module) if not name.startswith("_")]
    models = []
    for name in names:
        item = getattr(module, name, None)
        if not isinstance(item, type) or not issubclass(item, PreTrainedModel):
            continue
        if item.__module__ == module.__name__ and not item.__name__.endswith("PreTrainedModel"):
            models.append(item)
    return tuple(models)


def pairs(variant: Variant) -> tuple[tuple[ModelClass, ModelClass], ...]:
    """Each model of the variant with the parent's class; models without one are left out."""
    parents = model_classes(importlib.import_module(variant.parent))
    by_name = {parent.__name__: parent for parent in parents}
    by_role = {role(parent): parent for parent in parents}
    matched = []
    for model in model_classes(module_of(variant)):
        parent = by_name.get(model.__name__) or by_role.get(role(model))
        if parent is not None:
            matched.append((model, parent))
    return tuple(matched)


def role(model: ModelClass) -> str:
    """The class name without its configuration's prefix: "ForCausalLM" of LlamaMoeForCausalLM."""
    configuration = getattr(model, "config_class", None)
    prefix = configuration.__name__.removesuffix("Config") if configuration else ""
    return model.__name__.removeprefix(prefix)


def has_own_configuration(model: ModelClass) -> bool:
    """Whether the model brings its configuration, and with it a `model_type`."""
    return not model.config_class.__module__.startswith("transformers.")


def auto_classes() -> tuple[Any, ...]:
    """All auto classes of transformers: `AutoModel`, `AutoModelForCausalLM`, ..."""
    from transformers.models.auto import modeling_auto

    autos = []
    for name in modeling_auto.__all__:
        auto = getattr(modeling_auto, name)
        if name.startswith("AutoModel") and getattr(auto, "_model_mapping", None) is not None:
            autos.append(auto)
    return tuple(autos)


def auto_entries(variant: Variant) -> Entries:
    """For each auto class, by configuration class, the variant's models for the parent's."""
    # By name: another variant may be registered in place of the parent.
    models: dict[str, ModelClass] = {}
    configurations = {}
    for model, parent in pairs(variant):
        models[parent.__name__] = model
        configurations[parent.config_class] = model.config_class
    entries: Entries = {}
    for auto in auto_classes():
        for theirs, ours in configurations.items():
            parents = auto._model_mapping.get(theirs, ())
            if not isinstance(parents, tuple):
                parents = (parents,)
            names = [parent.__name__ for parent in parents]
            built = tuple(models[name] for name in names if name in models)
            if built:
                entries.setdefault(auto, {})[ours] = built
    return entries
