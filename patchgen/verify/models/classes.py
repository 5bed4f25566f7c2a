"""Which class of the parent a class of a variant stands for, and where both are imported from."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import linecache
import re
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from os.path import commonprefix
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch
from transformers import MODEL_MAPPING, AutoModel, PreTrainedModel, modeling_layers

from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.build import complete_interpreter, is_interpreted
from patchgen.verify.parts.part_check import replaced
from patchgen.verify.variants import Variant


def module_of(variant: Variant) -> ModuleType:
    """The generated module, imported from its project.

    Projects have packages of the same name: what another one left in `sys.modules` is forgotten
    first.
    """
    top = variant.module.partition(".")[0]
    path = Path(variant.home, *variant.module.split(".")).with_suffix(".py").resolve()
    module = sys.modules.get(variant.module)
    # Imported twice, its classes would no longer be those of the models that were built.
    if module is not None and Path(module.__file__ or "").resolve() == path:
        return module
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


@functools.cache
def _mixed_parent(variant: Variant) -> ModuleType:
    """The parent's module with the variant's classes in place of those that differ on purpose.

    Its text with an import in place of each such class: what reads the class when the module is
    made, such as a list of what can be recorded, gets the variant's.
    """
    parent = importlib.import_module(variant.parent)
    text = Path(str(parent.__file__)).read_text(encoding="utf-8")
    lines, replaced = text.splitlines(keepends=True), set(variant.replaced)
    ours = variant.heads[0]
    theirs = find_parent_class(replace(variant, differs=()), ours).__name__
    ending = commonprefix([ours[::-1], theirs[::-1]])[::-1]
    prefix, own = theirs.removesuffix(ending), ours.removesuffix(ending)
    for node in reversed(ast.parse(text).body):
        name = getattr(node, "name", "")
        of_variant = own + name.removeprefix(prefix) if name.startswith(prefix) else name
        if isinstance(node, ast.ClassDef) and of_variant in replaced:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            imported = f"from {variant.module} import {of_variant} as {name}\n"
            lines[first - 1 : node.end_lineno] = [imported]
    module = module_of(variant)
    # The text is in no file; Python and torch find it where they look for lines.
    mixed = ModuleType(f"{variant.parent}_with_{variant.name}")
    mixed.__package__ = variant.parent.rpartition(".")[0]
    mixed.__file__ = str(Path(str(parent.__file__)).with_name(f"{mixed.__name__}.py"))
    linecache.cache[mixed.__file__] = (len(text), None, lines, mixed.__file__)
    sys.modules[mixed.__name__] = mixed
    exec(compile("".join(lines), mixed.__file__, "exec", dont_inherit=True), vars(mixed))
    for one in [one for one in vars(mixed).values() if isinstance(one, type)]:
        if one.__module__ == mixed.__name__ and "__init__" not in vars(one):
            if any(base.__module__ == modeling_layers.__name__ for base in one.__mro__):
                _give_own_inner_model(one, mixed)
        base = vars(module).get(own + one.__name__.removeprefix(prefix), one)
        if one.__module__ == mixed.__name__ and one.__name__.endswith("PreTrainedModel"):
            if "_init_weights" in vars(base):
                # What it asks for are classes of the mixed module, by the variant's names.
                renamed = {own + n.removeprefix(prefix): each for n, each in vars(mixed).items()}
                names = {**vars(module), **renamed, **vars(mixed)}
                _initialize_as(one, inspect.unwrap(vars(base)["_init_weights"]), names)
    return mixed


def _initialize_as(base: type, initialize: FunctionType, names: dict[str, Any]) -> None:
    """Let models of `base` set what the variant's classes have: its method, as one of `base`."""
    free = zip(initialize.__code__.co_freevars, initialize.__closure__ or (), strict=True)
    closure = tuple(CellType(base) if name == "__class__" else cell for name, cell in free)
    method = FunctionType(initialize.__code__, names, "_init_weights", None, closure)
    base._init_weights = torch.no_grad()(method)  # type: ignore[attr-defined]


def _give_own_inner_model(head: type, module: ModuleType) -> None:
    """Let a head of transformers' generic kinds build the module's model, and no registered one."""
    build: Any = head.__init__  # type: ignore[misc]

    @functools.wraps(build)
    def init(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        def make(registered: Any) -> Any:
            name = MODEL_MAPPING[type(config)].__name__
            return lambda config, **options: getattr(module, name)(config)

        with replaced(AutoModel, "from_config", make):
            build(self, config, *args, **kwargs)

    head.__init__ = init  # type: ignore[misc]


def find_parent_class(variant: Variant, head: str) -> type[PreTrainedModel]:
    """The parent's class of that name, or of the same ending if prefixes differ.

    Where classes differ on purpose, the parent has them too.
    """
    parent = _mixed_parent(variant) if variant.replaced else importlib.import_module(variant.parent)
    if hasattr(parent, head):
        return getattr(parent, head)
    ending = _ENDING.search(head)
    like = [
        name
        for name in parent.__all__
        if not name.endswith("PreTrainedModel") and (own := _ENDING.search(name))
        if ending is not None and own[0] == ending[0]
    ]
    if len(like) != 1:
        raise CannotBuild(f"{variant.parent} has no class that corresponds to {head}")
    return getattr(parent, like[0])


# What stands behind the prefix of a head: "ForCausalLM" of LlamaForCausalLM.
_ENDING = re.compile(r"(For[CMSTQPNIA]|LMHead|DoubleHeads|Model$|Encoder).*$")
