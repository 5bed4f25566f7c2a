"""The feed-forward networks (FFNs) of a module, and the normal form of each.

With L a linear layer and A an activation, and without dropouts, views, casts and numbers:

    gated   L(A(L(x)) * L(x))
    fused   L(A(half) * half) of the two halves of one L(x)
    plain   L(A(L(x)))
    split   A(L(x)); the second L is in a class of its own
    inline  plain, in the forward of the layer itself

Poolers and heads have the same forms: what makes an FFN is that a layer holds it beside its
attention.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.author.anatomy.code import (
    CASTS,
    VIEWS,
    called,
    constant,
    dotted,
    last,
    method_of,
    receiver,
    walk,
)
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import Layers
from patchgen.author.anatomy.module import Class

FORMS = {
    "L((A(L(x))*L(x)))": "gated",
    "L(A(L(x)))": "plain",
    "A(L(x))": "split",
    "L((A(C0(L(x)))*C1(L(x))))": "fused",
    "L((A(C1(L(x)))*C0(L(x))))": "fused",
}
LINEAR = ("Linear", "Conv1D", "Conv1d", "QuantLinear", "SqueezeBertConv1d", "MatMul")
ACTIVATIONS = (
    "GELU",
    "ReLU",
    "SiLU",
    "Tanh",
    "QuickGELU",
    "get_activation",
    "GELUActivation",
    "Mish",
    "Sigmoid",
)
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
SAME = ("Dropout", "StableDropout", "Identity", "DropPath", "dropout")


@dataclass(frozen=True, eq=False)
class FeedForward:
    """`layer.attribute`, an instance of `owner`.

    For the inline form, `owner` is the layer and `attribute` is "".
    """

    layer: Class
    attribute: str
    owner: Class
    form: str


def feed_forwards(layers: Layers) -> tuple[FeedForward, ...]:
    """The feed-forward network of each layer that has one of the forms."""
    found: list[FeedForward] = []
    for layer in layers.classes:
        own = list(_held_by(layers, layer))
        if not own and _is_inline(layer):
            own = [FeedForward(layer, "", layer, "inline")]
        found += own
    return tuple(found)


def _held_by(layers: Layers, layer: Class) -> Iterator[FeedForward]:
    for attribute in layer.attributes:
        for name in held(layer, attribute):
            owner = layers.module.classes.get(name)
            if owner is None or name in layers.attending:
                continue
            form = form_of(owner)
            if form:
                yield FeedForward(layer, attribute, owner, form)


def form_of(owner: Class) -> str:
    """The normal form of what a class computes from its first argument; `""` if it has none."""
    forward = owner.method("forward")
    if forward is None or len(forward.args.args) < 2:
        return ""
    return FORMS.get(Flow(owner, forward).result(), "")


def _is_inline(layer: Class) -> bool:
    """Whether the forward applies L, A and L to one value."""
    forward = layer.method("forward")
    if forward is None:
        return False
    flow = Flow(layer, forward)
    for statement in walk(forward.body, ast.Assign):
        flow.statement(statement)
        if any("L(A(L(" in value for value in flow.values.values()):
            return True
    return False


@dataclass
class Flow:
    """The values of a forward as terms over its first argument, statement by statement."""

    owner: Class
    forward: ast.FunctionDef
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {self.forward.args.args[1].arg: "x"}

    def result(self) -> str:
        """The term that is returned by a forward without branches."""
        for node in self.forward.body:
            match node:
                case ast.Return(value=ast.Tuple(elts=[value, *_])):
                    return self.term(value)
                case ast.Return(value=ast.expr() as value):
                    return self.term(value)
            self.statement(node)
        return ""

    def statement(self, node: ast.stmt) -> None:
        """Record the value that an assignment binds."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.values[name] = self.term(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                whole = self.term(value)
                for number, target in enumerate(targets):
                    self.values[dotted(target)] = f"C{number}({whole})"

    def term(self, node: ast.expr) -> str:
        """`node` as a term; `?` if it cannot be one."""
        match node:
            case ast.Name(id=name):
                return self.values.get(name, "?")
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(self.term(left), self.term(right))
            case ast.Call() if method_of(node) in ("chunk", "split"):
                return self.term(receiver(node))
            case ast.Call() if method_of(node) in VIEWS | CASTS:
                return self.term(receiver(node))
            case ast.Call(args=[value, *_]):
                return self._applied(node, self.term(value))
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as number)):
                return f"C{number}({self.term(value)})"
            case _:
                return "?"

    def _product(self, left: str, right: str) -> str:
        if "?" in (left, right):  # a multiplier from the configuration
            return right if left == "?" else left
        # The order does not matter for the result: the activation comes first.
        first, second = sorted((left, right), key=lambda term: (not term.startswith("A"), term))
        return f"({first}*{second})"

    def _applied(self, node: ast.Call, value: str) -> str:
        name = called(node)
        role = role_of(self.owner, last(name)) if name.startswith("self.") else ""
        if last(name) in FUNCTIONS or role == "A":
            return f"A({value})"
        if role == "L":
            return f"L({value})"
        if role == "same" or last(name) in SAME:
            return value
        return "?"


def role_of(owner: Class, attribute: str) -> str:
    """What `self.ATTRIBUTE` is: "L" (linear), "A" (activation), "same" (identity) or ""."""
    for value in owner.attributes.get(attribute, ()):
        if isinstance(value, ast.IfExp):
            value = value.body
        if role := _role_of_value(attribute, value):
            return role
        if constant(value) is not None:
            return ""
    return ""


def _role_of_value(attribute: str, value: ast.expr) -> str:
    if isinstance(value, ast.Subscript) and dotted(value.value) == "ACT2FN":
        return "A"
    made = last(called(value))
    if made in LINEAR or made.endswith("Linear"):
        return "L"
    if made in ACTIVATIONS or made.endswith("Activation"):
        return "A"
    if made in SAME:
        return "same"
    # An activation can also be a function: `self.act_fn = gelu`.
    is_function = isinstance(value, ast.Name | ast.Attribute)
    if is_function and ("act" in attribute or "gelu" in dotted(value)):
        return "A"
    return ""
