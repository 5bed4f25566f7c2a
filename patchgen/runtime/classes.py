"""The classes of a variant: its models, the parent's class of each, and their configurations.

Imports the variant and its parent.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import transformers
from transformers import PreTrainedModel

from patchgen.runtime.release import warn_of_another_release
from patchgen.runtime.variants import Variant

ModelClass: TypeAlias = "type[PreTrainedModel]"


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
    listed = getattr(module, "__all__", None) or [
        name for name in vars(module) if not name.startswith("_")
    ]
    values = (getattr(module, name, None) for name in listed)
    return tuple(
        item
        for item in values
        if isinstance(item, type)
        and issubclass(item, PreTrainedModel)
        and item.__module__ == module.__name__
        and not item.__name__.endswith("PreTrainedModel")
    )


def pairs(variant: Variant) -> tuple[tuple[ModelClass, ModelClass], ...]:
    """Each model of the variant with the parent's class; models without one are left out."""
    parents = model_classes(importlib.import_module(variant.parent))
    return tuple(_paired(model_classes(module_of(variant)), parents))


def _paired(
    ours: Iterable[ModelClass], parents: Iterable[ModelClass]
) -> Iterator[tuple[ModelClass, ModelClass]]:
    by_name = {parent.__name__: parent for parent in parents}
    by_role = {role(parent): parent for parent in parents}
    for model in ours:
        parent = by_name.get(model.__name__) or by_role.get(role(model))
        if parent is not None:
            yield model, parent


def role(model: ModelClass) -> str:
    """The class name without its configuration's prefix: "ForCausalLM" of LlamaMoeForCausalLM."""
    configuration = getattr(model, "config_class", None)
    return model.__name__.removeprefix(
        configuration.__name__.removesuffix("Config") if configuration else ""
    )


def has_own_configuration(model: ModelClass) -> bool:
    """Whether the model brings its configuration, and with it a `model_type`."""
    return not model.config_class.__module__.startswith("transformers.")


def auto_classes() -> tuple[Any, ...]:
    """All auto classes of transformers: `AutoModel`, `AutoModelForCausalLM`, ..."""
    from transformers.models.auto import modeling_auto

    names = (name for name in modeling_auto.__all__ if name.startswith("AutoModel"))
    autos = (getattr(modeling_auto, name) for name in names)
    return tuple(auto for auto in autos if getattr(auto, "_model_mapping", None) is not None)


def auto_entries(variant: Variant) -> dict[Any, dict[Any, tuple[ModelClass, ...]]]:
    """For each auto class, by configuration class, the variant's models for the parent's."""
    # By name: another variant may be registered in place of the parent.
    models = {parent.__name__: model for model, parent in pairs(variant)}
    configurations = {parent.config_class: model.config_class for model, parent in pairs(variant)}
    entries: dict[Any, dict[Any, tuple[ModelClass, ...]]] = {}
    for auto in auto_classes():
        for theirs, ours in configurations.items():
            parents = auto._model_mapping.get(theirs, ())
            if not isinstance(parents, tuple):
                parents = (parents,)
            built = tuple(models[each.__name__] for each in parents if each.__name__ in models)
            if built:
                entries.setdefault(auto, {})[ours] = built
    return entries
