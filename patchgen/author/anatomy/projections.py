"""Linear layers of a class with the same input, which one matrix product can compute.

Takes a module; returns groups of such layers.  A layer does not belong to a group if it is called
twice, or created in two ways; `read_elsewhere` finds other code that needs it as a layer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Reason
from patchgen.author.anatomy.code import called, dotted, last, statements_of, stored, walk
from patchgen.author.anatomy.module import Class, Module

LINEAR = ("nn.Linear", "torch.nn.Linear")


@dataclass(frozen=True, eq=False)
class Projection:
    """`self.NAME = nn.Linear(inputs, outputs, bias=bias)`, and its one call, in `statement`."""

    name: str
    made: ast.Assign
    inputs: str
    outputs: str
    bias: str
    call: ast.Call
    statement: ast.stmt


@dataclass(frozen=True, eq=False)
class Shared:
    """Two or more layers to which `method` gives the same value, in the order of their calls.

    `run` are the statements from the first call to the last.
    """

    owner: Class
    init: ast.FunctionDef
    method: ast.FunctionDef
    layers: tuple[Projection, ...]
    run: tuple[ast.stmt, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(layer.name for layer in self.layers)


def shared_inputs(owner: Class) -> tuple[Shared, ...]:
    """The groups in the own methods of `owner`."""
    init = owner.own.get("__init__")
    if init is None:
        return ()
    made = dict(_made(owner, init))
    found = []
    for name, method in owner.own.items():
        if name == "__init__":
            continue
        for suite in statements_of(method):
            for group in _groups(made, suite):
                found.append(Shared(owner, init, method, tuple(group), _run(suite, group)))
    return tuple(found)


def _made(owner: Class, init: ast.FunctionDef) -> Iterator[tuple[str, ast.Assign]]:
    """The linear layers that are created once, for every configuration."""
    for node in init.body:
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(args=[_, _]) as call,
            ) if called(call) in LINEAR and len(owner.attributes[name]) == 1:
                if {one.arg for one in call.keywords} <= {"bias"}:
                    yield name, node


def _groups(made: dict[str, ast.Assign], suite: Sequence[ast.stmt]) -> Iterator[list[Projection]]:
    """Layers of one kind that one suite calls with the same name.

    A statement that binds the name again ends the group.
    """
    # By the name of the input, and the size of the input and the bias of the layers.
    open_groups: dict[tuple[str, str, str], list[Projection]] = {}
    for statement in suite:
        for projection in _projections(made, statement):
            value = dotted(projection.call.args[0])
            if value and "." not in value:
                key = (value, projection.inputs, projection.bias)
                open_groups.setdefault(key, []).append(projection)
        bound = stored(statement)
        for key in list(open_groups):
            if key[0] in bound:
                yield from _whole(open_groups.pop(key))
    for group in open_groups.values():
        yield from _whole(group)


def _projections(made: dict[str, ast.Assign], statement: ast.stmt) -> Iterator[Projection]:
    """The calls of the layers `made` in a simple statement."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        return
    for call in walk(statement, ast.Call):
        name = called(call).removeprefix("self.")
        is_layer = called(call) == f"self.{name}" and name in made
        if is_layer and len(call.args) == 1 and not call.keywords:
            yield _projection(name, made[name], call, statement)


def _whole(group: list[Projection]) -> Iterator[list[Projection]]:
    if len(group) > 1 and len({one.name for one in group}) == len(group):
        yield group


def _run(suite: Sequence[ast.stmt], group: Sequence[Projection]) -> tuple[ast.stmt, ...]:
    first, last_ = (suite.index(one.statement) for one in (group[0], group[-1]))
    return tuple(suite[first : last_ + 1])


def _projection(name: str, made: ast.Assign, call: ast.Call, statement: ast.stmt) -> Projection:
    value = made.value
    assert isinstance(value, ast.Call)
    bias = next((ast.unparse(one.value) for one in value.keywords), "True")
    inputs, outputs = (ast.unparse(one) for one in value.args)
    return Projection(name, made, inputs, outputs, bias, call, statement)


def read_elsewhere(module: Module, group: Shared) -> Reason | None:
    """Why a layer of `group` must stay a layer: other code reads or sets it."""
    own: set[int] = set()
    for layer in group.layers:
        own |= {id(node) for node in walk([layer.made, layer.call], ast.Attribute)}
    for owner in module.classes.values():
        for node in walk(owner.node, ast.Attribute):
            if node.attr not in group.names or id(node) in own:
                continue
            if not _is_anothers(owner, group.owner, node):
                return Reason(node, f"`{node.attr}` of {group.owner.name} is read here too")
        for name, value in owner.settings.items():
            if name.startswith(("_tied", "_keep")):
                text = _names_one(value, group.names)
                if text is not None:
                    return Reason(text, f"`{name}` names a layer of {group.owner.name}")
    return None


def _is_anothers(owner: Class, other: Class, node: ast.Attribute) -> bool:
    """Whether `node` in `owner` is an attribute of a class that is not related to `other`."""
    return (
        dotted(node.value) == "self"
        and node.attr in owner.attributes
        and not _related(owner, other)
    )


def _related(one: Class, other: Class) -> bool:
    return one is other or any(_related(parent, other) for parent in one.parents)


def _names_one(value: ast.expr, names: Sequence[str]) -> ast.Constant | None:
    for text in walk(value, ast.Constant):
        if isinstance(text.value, str) and set(text.value.split(".")) & set(names):
            return text
    return None


def is_one_already(owner: Class) -> bool:
    """Whether an attention computes queries, keys and values by one linear layer."""
    count = 0
    for values in owner.attributes.values():
        if any(last(called(value)) in WIDE for value in values):
            count += 1
    return 0 < count <= 2


WIDE = ("Linear", "Conv1D")
