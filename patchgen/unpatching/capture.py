"""What a running program has changed about a model: its classes, functions and instances.

Each modeling module that the model's classes come from is run once more from its file, as a module
that nobody sees, and the two are compared name by name and member by member.  Other modules of
transformers, and those of torch, are looked through for functions of somebody else.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from patchgen import disk
from patchgen.unpatching.values import (
    code_of,
    describe,
    fresh_module,
    is_foreign,
    is_same,
    place_of,
)

MODELING = re.compile(r"transformers\.models\.\w+\.modeling_(?!auto\b)\w+")
# Made by Python when a class is made, and by documentation.
_MADE = re.compile(
    r"__(doc|module|dict|weakref|annotations|abstractmethods|parameters|orig_bases|firstlineno"
    r"|static_attributes|dataclass_\w+|match_args|qualname|signature)__|_abc_impl"
)
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_LIBRARIES = ("transformers", "torch", "huggingface_hub", "kernels")
# Hooks that transformers registers when it builds a model.
_OF_TRANSFORMERS = "transformers.utils."
_OUTSIDE = "stands outside of the model's file: "


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the file says: `target` in `module` is `now`, defined at `at`.

    `kind` is class, function, method, attribute, instance or hook.  `dead` says why it has no
    effect, and `why_not` why it is not written.
    """

    target: str
    module: str
    kind: str
    now: str
    at: str
    dead: str = ""
    why_not: str = ""
    value: Any = field(default=None, compare=False, repr=False)


def own_module(model: nn.Module | None) -> str:
    """The modeling module of transformers that a model's class comes from; "" without one."""
    modules = (base.__module__ for base in type(model).__mro__)
    return next(filter(MODELING.fullmatch, modules), "")


def capture(model: nn.Module | None) -> list[Difference]:
    """Every difference of a model; without one, those of all modeling modules in use."""
    classes = {type(part) for part in model.modules()} if model is not None else set()
    bases = set[str]()
    for owner in classes:
        bases.update(base.__module__ for base in owner.__mro__)
    names = set(filter(MODELING.fullmatch, bases or sys.modules))
    differences: list[Difference] = []
    for name in sorted(names):
        for patch in _of_module(sys.modules[name]):
            differences.append(_with_life(patch, classes))
    differences += _of_other_modules(names, bases)
    differences += _of_torch(classes)
    differences += _of_attention_functions()
    if model is not None:
        written = {patch.value for patch in differences if patch.kind == "class"}
        differences += _of_instances(model)
        differences += _strangers(model, written)
        differences += _hooks(model)
    # Two methods may read one new attribute.
    return [*dict.fromkeys(differences)]


def _difference(target: str, module: str, kind: str, value: Any, why_not: str = "") -> Difference:
    defined_at = place_of(value) if kind != "attribute" else ""
    return Difference(target, module, kind, describe(value), defined_at, "", why_not, value)


# Modeling modules, compared with their files.


def _of_module(module: ModuleType) -> Iterator[Difference]:
    name = module.__name__
    old = vars(fresh_module(name))
    new = vars(module)
    for key in [*old, *(key for key in new if key not in old)]:
        if key.startswith("__") and key.endswith("__"):
            continue
        if key not in new:
            yield Difference(key, name, "attribute", "gone", "", "", "a name that was deleted")
            continue
        value = new[key]
        if key not in old or not is_same(old[key], value):
            yield _difference(key, name, _kind(value), value)
        elif isinstance(value, type) and value.__module__ == name:
            yield from _of_class(old[key], value)


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "attribute"


def _of_class(old: type, new: type) -> Iterator[Difference]:
    name = new.__qualname__
    module = new.__module__
    theirs = vars(old)
    ours = vars(new)
    for key in [*theirs, *(key for key in ours if key not in theirs)]:
        if _MADE.fullmatch(key):
            continue
        target = f"{name}.{key}"
        if key not in ours:
            why = "a member that was deleted"
            yield Difference(target, module, "attribute", "gone", "", "", why)
            continue
        if key in theirs:
            differs = not is_same(theirs[key], ours[key])
        else:
            differs = not _is_noted(old, key)
        if differs:
            kind = "method" if code_of(ours[key]) or callable(ours[key]) else "attribute"
            yield _difference(target, module, kind, ours[key])
    if not is_same(old.__bases__, new.__bases__):
        bases = ", ".join(map(describe, new.__bases__))
        yield Difference(name, module, "class", f"of {bases}", "", "", "other bases")


def _is_noted(owner: type, key: str) -> bool:
    """Whether the code of a base keeps an answer in its classes under this name."""
    files = {getattr(sys.modules[base.__module__], "__file__", None) for base in owner.__mro__[1:]}
    texts = (disk.text_of(file) for file in files if file and file.endswith(".py"))
    return not hasattr(owner, key) and any(key in text for text in texts)


def _with_life(patch: Difference, classes: set[type]) -> Difference:
    """A class that was put into its module when the model was built already changes nothing."""
    if patch.kind != "class" or patch.value is None or patch.value in classes:
        return patch
    built = {(owner.__module__, owner.__qualname__) for owner in classes}
    if (patch.module, patch.target) in built:
        return replace(patch, dead="the model was built before, with the old class")
    return patch


# Other modules of transformers, and torch.


def _of_other_modules(names: set[str], bases: set[str]) -> Iterator[Difference]:
    """Functions of somebody else in what the model's modules import."""
    used = {*bases}
    for name in names:
        for value in vars(fresh_module(name)).values():
            if isinstance(value, type | FunctionType):
                used.add(getattr(value, "__module__", None) or "")
    for name in sorted(used - names):
        module = sys.modules.get(name)
        if not name.startswith("transformers.") or module is None or MODELING.fullmatch(name):
            continue
        for target, value in _defined(module):
            if is_foreign(value, *_LIBRARIES):
                yield _difference(target, name, "function", value, f"{_OUTSIDE}import the patch")


def _of_torch(classes: set[type]) -> Iterator[Difference]:
    """Classes of somebody else in `torch.nn`, and functions in what computes the model."""
    why = f"{_OUTSIDE}it changes torch for everybody"
    for key, value in vars(nn).items():
        if not isinstance(value, type):
            continue
        package = value.__module__.partition(".")[0]
        if package != "torch":
            yield _difference(f"nn.{key}", "torch", "class", value, why)
    layers = [owner for owner in classes if owner.__module__.startswith("torch.")]
    layers.sort(key=lambda owner: owner.__qualname__)
    for owner in (torch.nn.functional, *layers):
        short = owner.__name__.rpartition(".")[2]
        for key, value in vars(owner).items():
            if isinstance(value, FunctionType) and is_foreign(value, *_LIBRARIES):
                yield _difference(f"{short}.{key}", "torch", "function", value, why)


def _of_attention_functions() -> Iterator[Difference]:
    why = f"{_OUTSIDE}register it where the model is loaded"
    modeling_utils = sys.modules.get("transformers.modeling_utils")
    for key, value in getattr(modeling_utils, "ALL_ATTENTION_FUNCTIONS", {}).items():
        if is_foreign(value, *_LIBRARIES):
            yield _difference(f"ALL_ATTENTION_FUNCTIONS[{key!r}]", "", "function", value, why)


def _defined(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and methods that the file of a module defines, as they are now."""
    for node in ast.parse(disk.text_of(module.__file__ or "")).body:
        live = getattr(module, getattr(node, "name", ""), None)
        match node:
            case ast.FunctionDef(name=name):
                yield name, live
            case ast.ClassDef(name=name, body=body) if isinstance(live, type):
                for member in body:
                    if isinstance(member, ast.FunctionDef):
                        yield f"{name}.{member.name}", vars(live).get(member.name)


# Instances.


def _of_instances(model: nn.Module) -> Iterator[Difference]:
    """Methods that were put on instances: the same on all of a class is one of the class."""
    by_class: dict[type, dict[str, nn.Module]] = defaultdict(dict)
    for path, part in model.named_modules():
        by_class[type(part)][path] = part
    for owner, instances in by_class.items():
        keys: dict[str, None] = {}
        for part in instances.values():
            for key in vars(part):
                if _replaces(owner, key):
                    keys[key] = None
        for key in keys:
            having = {path: part for path, part in instances.items() if _is_set(part, key)}
            if having:
                yield from _of_method(owner, key, having, instances)


def _of_method(
    owner: type, key: str, having: Mapping[str, nn.Module], instances: Mapping[str, nn.Module]
) -> Iterator[Difference]:
    """A method that some instances of a class have for themselves, by their paths."""
    module = owner.__module__
    functions = [_unbound(part, vars(part)[key]) for part in having.values()]
    first, *others = functions
    path = next(iter(having))
    count = len(having)
    why = ""
    if not MODELING.fullmatch(module) or "." in owner.__qualname__:
        why = f"{path or 'the model'} is no class of the model's file"
    elif any(not is_same(first, other) for other in others):
        why = f"its {count} instances have different ones"
    elif count < len(instances):
        why = f"{count} of {len(instances)} instances have it, as {path}"
    else:
        yield from _added(owner, [*instances.values()], first)
    yield _difference(f"{owner.__qualname__}.{key}", module, "instance", first, why)


def _replaces(owner: type, key: str) -> bool:
    # `torch.compile` and `Module.compile` keep what they made here.
    return callable(getattr(owner, key, None)) and not key.startswith("_compiled")


def _is_set(part: nn.Module, key: str) -> bool:
    """Whether an instance has a method of its own that is not one of its class's file."""
    value = vars(part).get(key)
    if value is None or isinstance(value, type):
        return False
    code = code_of(value)
    module = sys.modules[type(part).__module__]
    return code is None or code.co_filename != module.__file__ or isinstance(value, partial)


def _unbound(part: nn.Module, value: Any) -> Any:
    """The function that an instance got as a method, or as a partial that hands itself over."""
    if isinstance(value, MethodType) and value.__self__ is part:
        return value.__func__
    if isinstance(value, partial) and not value.keywords and [*value.args] == [part]:
        return value.func
    return value


def _added(owner: type, instances: list[nn.Module], function: Any) -> Iterator[Difference]:
    """What a new method reads of instances, and the code of their class does not set."""
    new = code_of(function)
    if new is None:
        return
    known: set[str] = set()
    for base in owner.__mro__:
        for method in map(code_of, vars(base).values()):
            if method is not None:
                known.update(method.co_names)
    for key in new.co_names:
        if key in known or not all(key in vars(part) for part in instances):
            continue
        first, *others = [vars(part)[key] for part in instances]
        is_one = all(is_same(first, value) for value in others)
        why = "" if is_one else "its instances have different ones"
        yield _difference(f"{owner.__qualname__}.{key}", owner.__module__, "attribute", first, why)


def _strangers(model: nn.Module, written: set[Any]) -> Iterator[Difference]:
    """Modules of classes that no file of the model builds, those inside them left out."""
    matches: dict[type, list[str]] = defaultdict(list)
    inside: tuple[str, ...] = ("\0",)
    for path, part in model.named_modules():
        owner = type(part)
        if path.startswith(inside):
            continue
        if owner in written:
            inside += (f"{path}.",)
        elif owner.__module__.partition(".")[0] not in ("torch", "transformers"):
            matches[owner].append(path)
            if path:
                inside += (f"{path}.",)
    for owner, paths in matches.items():
        base = owner.__bases__[0]
        # `layer.__class__ = Mine` for each of a class: they were built as that class.
        is_built_so = paths[0] and len(owner.__bases__) == 1 and "__init__" not in vars(owner)
        if is_built_so and MODELING.fullmatch(base.__module__):
            if {type(part) for part in model.modules() if isinstance(part, base)} == {owner}:
                yield _difference(base.__qualname__, base.__module__, "class", owner)
                continue
        why = "a class of its own, which no patch puts into the model's file"
        yield _difference(_listed(paths), owner.__module__, "instance", owner, why)


def _listed(paths: list[str]) -> str:
    first, *others = paths
    more = f" and {len(others)} more" if others else ""
    return f"{first or 'the model'}{more}"


def _hooks(model: nn.Module) -> Iterator[Difference]:
    hooks: dict[tuple[str, Any], Any] = {}
    paths: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for path, part in model.named_modules():
        for kind in _HOOKS:
            for hook in getattr(part, kind).values():
                if str(getattr(hook, "__module__", "")).startswith(_OF_TRANSFORMERS):
                    continue
                code = code_of(hook)
                if code is None or is_foreign(hook, "torch"):
                    key = (kind.strip("_"), code or hook)
                    hooks.setdefault(key, hook)
                    paths[key].append(path)
    for (kind, code), hook in hooks.items():
        why = f"one of the {kind} of an object: register it where the model is loaded"
        yield _difference(_listed(paths[kind, code]), "", "hook", hook, why)
