"""The feed-forward networks (FFNs) of a module, by the shapes of what they compute.

The statements of a forward are written as one expression; the converter's own matcher compares it
with each shape.  Poolers and heads have the same shapes: what makes an FFN is that a layer holds it
beside its attention.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from patchgen.author.anatomy.attention import Layers
from patchgen.author.anatomy.code import called, last, parsed
from patchgen.author.anatomy.module import Class
from patchgen.compiler.edits.pattern import fit_expression
from patchgen.syntax.trees import dotted

# "halves" of one product, one above the other; the second layer of "split" is in another class.
SHAPES = {
    "gated": ("down(act(gate(x)) * up(x))", "down(up(x) * act(gate(x)))"),
    "halves": (
        "down(act(up(x).chunk(2, dim=-1)[0]) * up(x).chunk(2, dim=-1)[1])",
        "down(up(x).chunk(2, dim=-1)[1] * act(up(x).chunk(2, dim=-1)[0]))",
    ),
    "plain": ("down(act(up(x)))",),
    "split": ("act(up(x))",),
}
DROPPED = ("drop(y)", "nn.functional.dropout(y, p=rate, training=self.training)")
HOLES = {"down", "act", "gate", "up", "x", "drop", "y", "rate"}
_PARSED = [(form, parsed(shape)) for form, shapes in SHAPES.items() for shape in shapes]
LINEAR = ("Conv1D", "Conv1d", "SqueezeBertConv1d", "MatMul")  # beside names that end in Linear
ACTIVATIONS = ("GELU", "ReLU", "SiLU", "Tanh", "QuickGELU", "get_activation", "Mish", "Sigmoid")
FUNCTIONS = "gelu relu silu tanh sigmoid swish gelu_new quick_gelu softplus".split()


@dataclass(frozen=True, eq=False)
class FeedForward:
    """`layer.attribute`, an instance of `owner`; `parts` has the code of each part of `form`.

    `drop` or `rate` are parts where a dropout follows.
    """

    layer: Class
    attribute: str
    owner: Class
    form: str
    parts: dict[str, str]


def feed_forwards(layers: Layers) -> Iterator[FeedForward]:
    """The feed-forward networks of the layers."""
    for layer in layers.classes:
        for attribute in layer.attributes:
            for owner in layers.module.held(layer, attribute):
                form, parts = network_of(owner)
                if form and owner.name not in layers.attending:
                    yield FeedForward(layer, attribute, owner, form, parts)


def network_of(owner: Class) -> tuple[str, dict[str, str]]:
    """(the form of what a class computes from its first argument, the code of each part)."""
    forward = owner.method("forward")
    if forward is None or len(forward.args.args) < 2:
        return "", {}
    result = returned(forward.body)
    if result is None:
        return "", {}
    result, dropout = _without_dropout(owner, result)
    argument = forward.args.args[1].arg
    for form, shape in _PARSED:
        holes = fit_expression(shape, result, HOLES)
        if holes is not None and _are_roles(owner, holes, argument):
            parts = {**holes, **dropout}
            return form, {name: ast.unparse(node) for name, node in parts.items()}
    return "", {}


def _without_dropout(owner: Class, result: ast.expr) -> tuple[ast.expr, dict[str, ast.expr]]:
    """(what a result is before its dropout, the holes of that dropout)."""
    for shape in map(parsed, DROPPED):
        holes = fit_expression(shape, result, HOLES)
        if holes is None:
            continue
        layer = dotted(holes.get("drop")).removeprefix("self.")
        if "rate" in holes or "Dropout" in owner.held(layer):
            return holes.pop("y"), holes
    return result, {}


def returned(body: list[ast.stmt]) -> ast.expr | None:
    """What a forward without branches returns, as one expression; None if it has any."""
    values: dict[str, ast.expr] = {}
    for node in body:
        whole: Any = copy.deepcopy(getattr(node, "value", None))
        whole = _Inlined(values).visit(whole) if whole is not None else None
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]):
                values[name] = whole
            case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                for number, target in enumerate(targets):
                    item = ast.Subscript(whole, ast.Constant(number), ast.Load())
                    is_tuple = isinstance(whole, ast.Tuple)
                    values[dotted(target)] = whole.elts[number] if is_tuple else item
            case ast.Return():
                result: ast.expr | None = whole
                return result
            case _:
                return None
    return None


@dataclass
class _Inlined(ast.NodeTransformer):
    values: dict[str, ast.expr]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.values.get(node.id, node))


def _are_roles(owner: Class, holes: dict[str, ast.expr], argument: str) -> bool:
    """Whether the holes stand for linear layers, an activation and the argument."""
    roles = {name: role_of(owner, dotted(node)) for name, node in holes.items()}
    act = dotted(holes["act"])
    is_function = not act.startswith("self.") and last(act) in FUNCTIONS
    is_activation = is_function or roles["act"] == "A"
    linear = all(roles.get(name, "L") == "L" for name in ("gate", "up", "down"))
    return linear and is_activation and dotted(holes["x"]) == argument


def role_of(owner: Class, attribute: str) -> str:
    """What `self.ATTRIBUTE` is: "L" (linear), "A" (activation) or ""."""
    attribute = attribute.removeprefix("self.")
    for value in owner.attributes.get(attribute, ()):
        if isinstance(value, ast.IfExp):
            value = value.body
        maker = last(called(value))
        if isinstance(value, ast.Subscript) and dotted(value.value) == "ACT2FN":
            return "A"
        if maker in LINEAR or maker.endswith("Linear"):
            return "L"
        if maker in ACTIVATIONS or maker.endswith("Activation"):
            return "A"
        # An activation can also be a function: `self.act_fn = gelu`.
        is_function = isinstance(value, ast.Name | ast.Attribute)
        if is_function and ("act" in attribute or "gelu" in dotted(value)):
            return "A"
    return ""
