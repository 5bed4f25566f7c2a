"""What a recompute of a layer meets: how the layer is called, what it returns, what it chooses.

In: the classes of the layers of a module.  Out: calls whose arguments torch's checkpoint would miss, lists that it
would not follow, and routers, whose choice must not be made twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, last, method_of, walk
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module

# Under these names `GradientCheckpointingLayer` takes a cache away by itself, where it is a keyword.
KNOWN_CACHES = frozenset({"past_key_values", "layer_past"})
OTHER_CACHES = frozenset({"cache", "layer_state", "past_key_value", "cache_params"})
FLAGS = ("output_", "use_", "return_")


@dataclass(frozen=True, eq=False)
class LayerCall:
    """`call` in `method` of `owner` runs a layer of the class `layer`."""

    owner: Class
    method: ast.FunctionDef
    call: ast.Call
    layer: Class

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of what the layer's forward is given, without `self`."""
        forward = self.layer.method("forward")
        return tuple(arg.arg for arg in forward.args.args[1:]) if forward is not None else ()

    def keywords_to_give_by_place(self) -> tuple[str, ...]:
        """The leading parameters that are given by keyword, where nothing is given by place.

        torch takes the random state of the devices of what is given by place, and `use_reentrant=True` gives gradients
        to nothing else.
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
        """The arguments that are a cache, which a recompute would fill again."""
        by_place = zip(self.parameters, self.call.args, strict=False)
        found = [value for name, value in by_place if name in KNOWN_CACHES | OTHER_CACHES]
        found += [keyword.value for keyword in self.call.keywords if keyword.arg in OTHER_CACHES]
        return frozenset(value for value in found if not isinstance(value, ast.Constant))


def layer_calls(module: Module, layers: Sequence[Class]) -> Iterator[LayerCall]:
    """Every place where a layer is called, in a loop over its list, by its index or by its own name."""
    by_name = {layer.name: layer for layer in layers}
    for owner in module.classes.values():
        holding = {
            attribute: by_name[name]
            for attribute in owner.attributes
            for name in held(owner, attribute)
            if name in by_name
        }
        for method in owner.own.values() if holding else ():
            variables = _loop_variables(method, holding)
            for call in walk(method.body, ast.Call):
                layer = _layer_of(call.func, variables, holding)
                if layer is not None:
                    yield LayerCall(owner, method, call, layer)


def _loop_variables(method: ast.FunctionDef, holding: dict[str, Class]) -> dict[str, Class]:
    """The names that stand for a layer: `for index, layer in enumerate(self.layers)`."""
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
    """The assignment that makes a list of what the layer returns: `outputs = [states] + rest`."""
    forward = layer.own.get("forward")
    if forward is None:
        return None
    returned = {
        node.value.id for node in walk(forward.body, ast.Return) if isinstance(node.value, ast.Name)
    }
    made = [node for node in walk(forward.body, ast.Assign) if _target(node) in returned]
    lists = [
        node for node in made if isinstance(node.value, ast.List) or _extends_a_list(node.value)
    ]
    return lists[0] if len(made) == len(lists) == 1 else None


def _target(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


def _extends_a_list(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and isinstance(value.left, ast.List)
    )


@dataclass(frozen=True, eq=False)
class Choice:
    """`method` of `owner` chooses by `topk`, and changes in place what that gave in the statements `changes`."""

    owner: Class
    method: ast.FunctionDef
    changes: tuple[ast.AugAssign, ...]


def choices(module: Module, layers: Sequence[Class]) -> tuple[Choice, ...]:
    """The routers inside the layers."""
    found = []
    for owner in inside(module, layers):
        for method in owner.own.values():
            chosen = _chosen(method)
            if chosen is not None:
                changes = [
                    node
                    for node in walk(method.body, ast.AugAssign)
                    if _name(node.target) in chosen
                ]
                found.append(Choice(owner, method, tuple(changes)))
    return tuple(found)


def inside(module: Module, layers: Sequence[Class]) -> tuple[Class, ...]:
    """The layers and every class of the module that they hold, at any depth; bases included."""
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
    """The names of what `topk` gives in `method`; None where it is not called."""
    calls = [call for call in walk(method.body, ast.Call) if _is_choice(call)]
    if not calls:
        return None
    names: set[str] = set()
    for node in walk(method.body, ast.Assign):
        comes_of_it = any(call in calls for call in walk(node.value, ast.Call))
        if (comes_of_it and not isinstance(node.value, ast.BinOp)) or _name(node.value) in names:
            names |= {each.id for target in node.targets for each in walk(target, ast.Name)}
    return frozenset(names)


def _is_choice(call: ast.Call) -> bool:
    return last(called(call)) == "topk" or method_of(call) == "topk"


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
