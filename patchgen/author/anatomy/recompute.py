"""What activation checkpointing must know of layers: how they are called, and what they return.

Takes the classes of the layers of a module; returns calls whose arguments torch's checkpoint would
miss, lists that it would not look into, and routers, whose choice must not be recomputed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.anatomy.code import called, last, method_of, walk
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module
from patchgen.facts.modules import CACHES

EVERY_CACHE = CACHES | {"layer_past", "layer_state", "past_key_value", "cache_params"}
FLAGS = ("output_", "use_", "return_")


@dataclass(frozen=True, eq=False)
class LayerCall:
    """`call` in `method` of `owner` runs a layer of class `layer`.

    `removed` are the keywords of caches that `GradientCheckpointingLayer` removes by itself.
    """

    owner: Class
    method: ast.FunctionDef
    call: ast.Call
    layer: Class
    removed: frozenset[str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the forward of the layer, without `self`."""
        forward = self.layer.method("forward")
        return tuple(arg.arg for arg in forward.args.args[1:]) if forward is not None else ()

    def keywords_to_give_by_place(self) -> tuple[str, ...]:
        """The leading parameters that are passed by keyword, if no argument is positional.

        They must be positional: torch saves the random state of the devices of positional arguments
        only, and `use_reentrant=True` computes gradients of nothing else.
        """
        if any(not isinstance(arg, ast.Constant) for arg in self.call.args):
            return ()
        given = {keyword.arg for keyword in self.call.keywords}
        leading: list[str] = []
        for name in self.parameters:
            if name not in given or name.startswith(FLAGS) or "mask" in name:
                break
            leading.append(name)
        return tuple(leading)

    def caches(self) -> frozenset[ast.expr]:
        """The arguments that are a cache, to which a recompute would add everything twice."""
        by_place = zip(self.parameters, self.call.args, strict=False)
        found = [value for name, value in by_place if name in EVERY_CACHE]
        kept = EVERY_CACHE - self.removed
        found += [keyword.value for keyword in self.call.keywords if keyword.arg in kept]
        return frozenset(value for value in found if not isinstance(value, ast.Constant))


def layer_calls(module: Module, layers: Sequence[Class]) -> Iterator[LayerCall]:
    """Every call of a layer: in a loop over its list, by its index or by its own name."""
    by_name = {layer.name: layer for layer in layers}
    removed = _removed_caches(module)
    for owner in module.classes.values():
        holding: dict[str, Class] = {}
        for attribute in owner.attributes:
            for name in held(owner, attribute):
                if name in by_name:
                    holding[attribute] = by_name[name]
        if not holding:
            continue
        for method in owner.own.values():
            variables = _loop_variables(method, holding)
            for call in walk(method.body, ast.Call):
                layer = _layer_of(call.func, variables, holding)
                if layer is not None:
                    yield LayerCall(owner, method, call, layer, removed)


def _removed_caches(module: Module) -> frozenset[str]:
    """What `GradientCheckpointingLayer` sets to None among the keywords of a layer.

    It is read from transformers, which has changed the names.
    """
    file = module.folder.parents[1] / "modeling_layers.py" if module.folder is not None else None
    return _read_removed(file) if file is not None and file.is_file() else CACHES


@functools.lru_cache(maxsize=2)  # Every model of a release asks.
def _read_removed(file: Path) -> frozenset[str]:
    found = set()
    for node in walk(ast.parse(file.read_text(encoding="utf-8")), ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(str(name)))],
                value=ast.Constant(None),
            ):
                found.add(name)
    return frozenset(found)


def _loop_variables(method: ast.FunctionDef, holding: dict[str, Class]) -> dict[str, Class]:
    """The loop variables that hold a layer: `for index, layer in enumerate(self.layers)`."""
    found: dict[str, Class] = {}
    for loop in walk(method.body, ast.For):
        lists = [node.attr for node in walk(loop.iter, ast.Attribute) if node.attr in holding]
        if lists:
            names = [node.id for node in walk(loop.target, ast.Name)]
            found |= dict.fromkeys(names, holding[lists[0]])
    return found


def _layer_of(
    function: ast.expr, variables: dict[str, Class], holding: dict[str, Class]
) -> Class | None:
    match function:
        case ast.Name(id=name):
            return variables.get(name)
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return holding.get(attribute)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
            return holding.get(attribute)
        case _:
            return None


def returned_list(layer: Class) -> ast.Assign | None:
    """The assignment that makes the result of the layer a list: `outputs = [states] + rest`."""
    forward = layer.own.get("forward")
    if forward is None:
        return None
    returned = {_name(node.value) for node in walk(forward.body, ast.Return)} - {""}
    made = [node for node in walk(forward.body, ast.Assign) if _name(node.targets[0]) in returned]
    return made[0] if len(made) == 1 and _is_list(made[0].value) else None


def _is_list(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.BinOp(left=ast.List(), op=ast.Add()):
            return True
        case _:
            return False


@dataclass(frozen=True, eq=False)
class Choice:
    """`method` of `owner` chooses by `topk`, and `changes` modify its result in place."""

    owner: Class
    method: ast.FunctionDef
    changes: tuple[ast.AugAssign, ...]


def choices(module: Module, layers: Sequence[Class]) -> tuple[Choice, ...]:
    """The routers inside the layers."""
    found = []
    for owner in inside(module, layers):
        for method in owner.own.values():
            chosen = _chosen(method)
            if chosen is None:
                continue
            updates = walk(method.body, ast.AugAssign)
            changes = tuple(node for node in updates if _name(node.target) in chosen)
            found.append(Choice(owner, method, changes))
    return tuple(found)


def inside(module: Module, layers: Sequence[Class]) -> tuple[Class, ...]:
    """The layers, every class of the module that they hold at any depth, and the bases of all."""
    seen: dict[str, Class] = {}
    todo = list(layers)
    while todo:
        one = todo.pop()
        if one.name in seen:
            continue
        seen[one.name] = one
        names = [name for attribute in one.attributes for name in held(one, attribute)]
        todo += [module.classes[name] for name in names if name in module.classes]
        todo += one.parents
    return tuple(one for name, one in module.classes.items() if name in seen)


def _chosen(method: ast.FunctionDef) -> frozenset[str] | None:
    """The names that hold results of `topk` in `method`; None if it is not called."""
    calls = [call for call in walk(method.body, ast.Call) if _is_choice(call)]
    if not calls:
        return None
    names: set[str] = set()
    for node in walk(method.body, ast.Assign):
        has_call = any(call in calls for call in walk(node.value, ast.Call))
        # Arithmetic creates a new value, which may be modified.
        is_result = has_call and not isinstance(node.value, ast.BinOp)
        if is_result or _name(node.value) in names:
            names |= {name.id for name in walk(node.targets, ast.Name)}
    return frozenset(names)


def _is_choice(call: ast.Call) -> bool:
    return last(called(call)) == "topk" or method_of(call) == "topk"


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""
