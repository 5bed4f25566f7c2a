"""The feed-forward networks of a module: which class, or which statements of a layer, and in which normal form.

With L a linear layer, A an activation, and dropouts, views, casts and numbers left out:

    gated   L(A(L(x)) * L(x))          plain   L(A(L(x)))          split   A(L(x)), the second L in a class of its own
    fused   L(A(half) * half) of one L(x)                          inline  plain, in the forward of the layer itself

Poolers and heads have the same forms.  What is a feed-forward network is decided by position: it is held by a layer,
beside its attention.
"""

from __future__ import annotations

import ast
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
    """`layer.attribute`, an instance of `owner`; for the inline form the layer's own, and `attribute` is ""."""

    layer: Class
    attribute: str
    owner: Class
    form: str


def feed_forwards(layers: Layers) -> tuple[FeedForward, ...]:
    """The feed-forward network of each layer that has one of the forms."""
    found = []
    for layer in layers.classes:
        own = [
            FeedForward(layer, attribute, owner, form)
            for attribute in layer.attributes
            for name in held(layer, attribute)
            if (owner := layers.module.classes.get(name)) is not None
            and name not in layers.attending
            if (form := form_of(owner))
        ]
        if not own and _is_inline(layer):
            own = [FeedForward(layer, "", layer, "inline")]
        found += own
    return tuple(found)


def form_of(owner: Class) -> str:
    """The normal form of what a class computes of its first argument, `""` where it has none of them."""
    forward = owner.method("forward")
    if forward is None or len(forward.args.args) < 2:
        return ""
    return FORMS.get(Flow(owner, forward).result(), "")


def _is_inline(layer: Class) -> bool:
    """Whether some statements of the forward apply L, A and L to one value, one after the other."""
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
            if isinstance(node, ast.Return) and node.value is not None:
                value = (
                    node.value.elts[0]
                    if isinstance(node.value, ast.Tuple) and node.value.elts
                    else node.value
                )
                return self.term(value)
            self.statement(node)
        return ""

    def statement(self, node: ast.stmt) -> None:
        """What an assignment binds."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.values[name] = self.term(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                whole = self.term(value)
                for number, target in enumerate(targets):
                    self.values[dotted(target)] = f"C{number}({whole})"

    def term(self, node: ast.expr) -> str:
        """`node` as a term; `?` where it is none."""
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
        if "?" in (left, right):  # a multiplier out of the configuration
            return right if left == "?" else left
        return f"({'*'.join(sorted((left, right), key=lambda term: (not term.startswith('A'), term)))})"

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
    """What `self.ATTRIBUTE` is: "L" a linear layer, "A" an activation, "same" what changes no numbers; "" else."""
    for value in owner.attributes.get(attribute, ()):
        if isinstance(value, ast.IfExp):
            value = value.body
        if isinstance(value, ast.Subscript) and dotted(value.value) == "ACT2FN":
            return "A"
        made = last(called(value))
        if made in LINEAR or made.endswith("Linear"):
            return "L"
        if made in ACTIVATIONS or made.endswith("Activation"):
            return "A"
        if made in SAME:
            return "same"
        if isinstance(value, ast.Name | ast.Attribute) and (
            "act" in attribute or "gelu" in dotted(value)
        ):
            return "A"
        if constant(value) is not None:
            return ""
    return ""
