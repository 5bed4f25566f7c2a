"""Linear layers of a class that are given the same input, each in one place: what one matrix product can compute.

In: a module.  Out: groups of such layers, and what keeps others from being one: layers that are read elsewhere too, or
are made in two ways.
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
    """`self.NAME = nn.Linear(inputs, outputs, bias=bias)`, and its one call, which stands in `statement`."""

    name: str
    made: ast.Assign
    inputs: str
    outputs: str
    bias: str
    call: ast.Call
    statement: ast.stmt


@dataclass(frozen=True, eq=False)
class Shared:
    """Two or more layers that `method` gives the same value, in the order of their calls.

    `run` has the statements from the first of them to the last.
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
    """The groups of `owner`, of its own methods."""
    init = owner.own.get("__init__")
    if init is None:
        return ()
    made = dict(_made(owner, init))
    return tuple(
        Shared(owner, init, method, tuple(group), _run(suite, group))
        for name, method in owner.own.items()
        if name != "__init__"
        for suite in statements_of(method)
        for group in _groups(made, suite)
    )


def _made(owner: Class, init: ast.FunctionDef) -> Iterator[tuple[str, ast.Assign]]:
    """The linear layers that are made once, whatever the configuration says."""
    for node in init.body:
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(args=[_, _]) as call,
            ) if called(call) in LINEAR and len(owner.attributes[name]) == 1:
                if {one.arg for one in call.keywords} <= {"bias"}:
                    yield name, node


def _groups(made: dict[str, ast.Assign], suite: Sequence[ast.stmt]) -> Iterator[list[Projection]]:
    """Layers of one kind that statements of one suite give the same name, which is not bound in between."""
    open_: dict[tuple[str, str, str], list[Projection]] = {}
    for statement in suite:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
            for call in walk(statement, ast.Call):
                name = called(call).removeprefix("self.")
                if (
                    called(call) == f"self.{name}"
                    and name in made
                    and len(call.args) == 1
                    and not call.keywords
                ):
                    projection = _projection(name, made[name], call, statement)
                    key = (dotted(call.args[0]), projection.inputs, projection.bias)
                    if key[0] and "." not in key[0]:
                        open_.setdefault(key, []).append(projection)
        for key in [key for key in open_ if key[0] in stored(statement)]:
            yield from _whole(open_.pop(key))
    for group in open_.values():
        yield from _whole(group)


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
    """Where a layer of `group` is read or set beside the one call: as one layer among others it is then needed."""
    own = {
        id(one)
        for layer in group.layers
        for node in (layer.made, layer.call)
        for one in walk(node, ast.Attribute)
    }
    for owner in module.classes.values():
        for node in walk(owner.node, ast.Attribute):
            if node.attr not in group.names or id(node) in own:
                continue
            if not _is_anothers(owner, group.owner, node):
                return Reason(node, f"`{node.attr}` of {group.owner.name} is read here too")
        for name, value in owner.settings.items():
            if (
                name.startswith(("_tied", "_keep"))
                and (text := _names_one(value, group.names)) is not None
            ):
                return Reason(text, f"`{name}` names a layer of {group.owner.name}")
    return None


def _is_anothers(owner: Class, other: Class, node: ast.Attribute) -> bool:
    """Whether `node` in `owner` is an attribute of its own, and it has nothing to do with `other`."""
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
    """Whether an attention has one linear layer for queries, keys and values, and one for what comes out."""
    made = [
        name
        for name, values in owner.attributes.items()
        if any(last(called(v)) in WIDE for v in values)
    ]
    return 0 < len(made) <= 2


WIDE = ("Linear", "Conv1D")
