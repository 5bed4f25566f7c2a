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

from patchgen.author.anatomy.code import called, constant, dotted, last, parsed
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import Layers
from patchgen.author.anatomy.module import Class
from patchgen.compiler.edits.pattern import fit_expression

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
_PARSED = {form: tuple(map(parsed, shapes)) for form, shapes in SHAPES.items()}
LINEAR = ("Linear", "Conv1D", "Conv1d", "QuantLinear", "SqueezeBertConv1d", "MatMul")
ACTIVATIONS = ("GELU", "ReLU", "SiLU", "Tanh", "QuickGELU", "get_activation", "Mish", "Sigmoid")
FUNCTIONS = (
    "gelu",
    "relu",
    "silu",
    "tanh",
    "sigmoid",
    "swish",
    "gelu_new",
    "quick_gelu",
    "softplus",
)


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
            for name in held(layer, attribute):
                owner = layers.module.classes.get(name)
                if owner is None or name in layers.attending:
                    continue
                form, parts = network_of(owner)
                if form:
                    yield FeedForward(layer, attribute, owner, form, parts)


def network_of(owner: Class) -> tuple[str, dict[str, str]]:
    """(the form of what a class computes from its first argument, the code of each part)."""
    forward = owner.method("forward")
    if forward is None or len(forward.args.args) < 2:
        return "", {}
    result = returned(forward.body)
    if result is None:
        return "", {}
    dropped: dict[str, ast.expr] = {}
    for shape in map(parsed, DROPPED):
        holes = fit_expression(shape, result, HOLES)
        if holes is not None and ("rate" in holes or _is_dropout(owner, holes["drop"])):
            result = holes.pop("y")
            dropped = holes
    for form, shapes in _PARSED.items():
        for shape in shapes:
            holes = fit_expression(shape, result, HOLES)
            if holes is not None and _are_roles(owner, holes, forward.args.args[1].arg):
                every = {**holes, **dropped}
                return form, {name: ast.unparse(node) for name, node in every.items()}
    return "", {}


def returned(body: list[ast.stmt]) -> ast.expr | None:
    """What a forward without branches returns, as one expression; None if it has any."""
    values: dict[str, ast.expr] = {}
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = _Inlined(values).visit(copy.deepcopy(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                whole = _Inlined(values).visit(copy.deepcopy(value))
                parts = whole.elts if isinstance(whole, ast.Tuple) else []
                for number, target in enumerate(targets):
                    item = ast.Subscript(whole, ast.Constant(number), ast.Load())
                    values[dotted(target)] = parts[number] if parts else item
            case ast.Return(value=ast.expr() as value):
                result: ast.expr = _Inlined(values).visit(copy.deepcopy(value))
                return result
            case _:
                return None
    return None


@dataclass
class _Inlined(ast.NodeTransformer):
    values: dict[str, ast.expr]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.values.get(node.id, node))


def _is_dropout(owner: Class, node: ast.expr) -> bool:
    return "Dropout" in owner.makes(dotted(node).removeprefix("self."))


def _are_roles(owner: Class, holes: dict[str, ast.expr], argument: str) -> bool:
    """Whether the holes stand for linear layers, an activation and the argument."""
    linear = [holes[name] for name in ("gate", "up", "down") if name in holes]
    if any(role_of(owner, dotted(node).removeprefix("self.")) != "L" for node in linear):
        return False
    act = dotted(holes["act"])
    is_function = not act.startswith("self.") and last(act) in FUNCTIONS
    role = role_of(owner, act.removeprefix("self."))
    return dotted(holes["x"]) == argument and (is_function or role == "A")


def role_of(owner: Class, attribute: str) -> str:
    """What `self.ATTRIBUTE` is: "L" (linear), "A" (activation) or ""."""
    for value in owner.attributes.get(attribute, ()):
        if isinstance(value, ast.IfExp):
            value = value.body
        made = last(called(value))
        if isinstance(value, ast.Subscript) and dotted(value.value) == "ACT2FN":
            return "A"
        if made in LINEAR or made.endswith("Linear"):
            return "L"
        if made in ACTIVATIONS or made.endswith("Activation"):
            return "A"
        # An activation can also be a function: `self.act_fn = gelu`.
        is_function = isinstance(value, ast.Name | ast.Attribute)
        if is_function and ("act" in attribute or "gelu" in dotted(value)):
            return "A"
        if constant(value) is not None:
            return ""
    return ""
