"""Build the parent of a generated model, with equal sizes and without weights."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from patchgen.compiler.flat import is_generated
from patchgen.runtime.variants import Variant

BASE = "PreTrainedModel"
# Of a configuration, what is of its own class and not of its parent's.
OWN = ("model_type", "architectures", "transformers_version")


def parent_on_meta(model: Any) -> Any | None:
    """The parent of `model` on the meta device; None for a model that is not generated."""
    kind = parent_class(type(model))
    if kind is None:
        return None
    values = {name: value for name, value in model.config.to_dict().items() if name not in OWN}
    config = kind.config_class.from_dict(values)
    with torch.device("meta"):
        return kind(config)


def parent_class(kind: type) -> Any | None:
    """The parent's class that a class of a generated file stands for, by the file's banner.

    None for a class of any other file, of a file whose parent is not in transformers, and for a new
    class.
    """
    path = Path(inspect.getsourcefile(kind) or "")
    if not (path.is_file() and is_generated(path.read_text(encoding="utf-8"))):
        return None
    variant = Variant(path.stem, kind.__module__, path, path.parent)
    try:
        parent = importlib.import_module(variant.parent)
    except ValueError:
        return None
    own, theirs = _prefix(sys.modules[kind.__module__]), _prefix(parent)
    names = (kind.__name__, theirs + kind.__name__.removeprefix(own))
    return next((getattr(parent, name) for name in names if hasattr(parent, name)), None)


def _prefix(module: ModuleType) -> str:
    """What the names of a model's classes begin with: "Llama" of LlamaPreTrainedModel."""
    names = [name for name in vars(module) if name.endswith(BASE) and name != BASE]
    return min(names, key=len, default=BASE).removesuffix(BASE)
