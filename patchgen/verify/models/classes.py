"""Which class of the parent a class of a variant stands for, and where both are imported from."""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from transformers import PreTrainedModel

from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.interpreter import complete_interpreter, is_interpreted
from patchgen.verify.variants import Variant


def module_of(variant: Variant) -> ModuleType:
    """The generated module, imported from its project.

    Projects have packages of the same name: what another one left in `sys.modules` is forgotten
    first.
    """
    top = variant.module.partition(".")[0]
    path = Path(variant.home, *variant.module.split(".")).with_suffix(".py").resolve()
    if path.exists() and _is_elsewhere(sys.modules.get(top), Path(variant.home)):
        for name in [name for name in sys.modules if name.partition(".")[0] == top]:
            del sys.modules[name]
    sys.path.insert(0, variant.home)
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(variant.module)
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        raise CannotBuild(str(error)) from error  # kernels that this machine need not have
    finally:
        sys.path.remove(variant.home)
    if is_interpreted() and "liger_kernel" in sys.modules:
        complete_interpreter()
    if path.exists() and Path(module.__file__ or "").resolve() != path:
        raise CannotBuild(f"{variant.module} is imported from {module.__file__}, not from {path}")
    return module


def _is_elsewhere(package: ModuleType | None, home: Path) -> bool:
    """Whether this top-level package is of another folder than `home`; no package is."""
    spec: ModuleSpec | None = getattr(package, "__spec__", None)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return bool(places) and (home / Path(places[0]).name).resolve() != Path(places[0]).resolve()


def find_parent_class(variant: Variant, head: str) -> type[PreTrainedModel]:
    """The parent's class of that name, or of the same ending if prefixes differ."""
    parent = importlib.import_module(variant.parent)
    if hasattr(parent, head):
        return getattr(parent, head)
    ending = _ending(head)
    public = [
        n for n in parent.__all__ if _ending(n) == ending and not n.endswith("PreTrainedModel")
    ]
    if len(public) != 1:
        raise CannotBuild(f"{variant.parent} has no class that corresponds to {head}")
    return getattr(parent, public[0])


def _ending(name: str) -> str:
    return re.sub(
        r"^.*?(?=(?:ForC|ForM|ForS|ForT|ForQ|ForP|ForN|ForI|ForA"
        r"|LMHead|DoubleHeads|Model$|Encoder))",
        "",
        name,
    )
