"""The FFN of a dense layer in the form that experts have: its linear layers and its activation.

Takes a feed-forward network; returns a `Dense`, or raises with the reason why experts would compute
something else.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Reason
from patchgen.author.anatomy.code import called, dotted, last, walk
from patchgen.author.anatomy.ffn import FeedForward, role_of
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module
from patchgen.compiler.edits.pattern import find

# The attribute with the number of output features, by class of linear layer.
WIDTHS = {"Linear": "out_features", "Conv1D": "nf"}
# The functions of torch that are activations of transformers by the same name.
OF_TORCH = ("gelu", "relu", "silu", "sigmoid", "tanh")


@dataclass(frozen=True, slots=True)
class Dense:
    """The FFN of a layer, `layer.attribute`, which a mixture replaces.

    `place` is the name of the mixture, and `up` and `down` are those of the dense layers, in the
    module that holds them: the layer or, before a dropout, a Sequential.  `idle` are other
    attributes of the layer that the mixture replaces.  `width`, `bias`, `activation` and `dropout`
    are code; `dropout` is "" if there is none.
    """

    attribute: str
    place: str
    up: tuple[str, ...]
    down: str
    gated: bool
    width: str
    bias: str
    activation: str
    transposed: bool
    dropout: str = ""
    idle: tuple[str, ...] = ()


class Unfit(Exception):
    """Experts would not compute what the FFN does."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.reason = Reason(node, what)


def dense(module: Module, found: FeedForward) -> Dense:
    """The FFN `found` in the form of experts.

    Raises Unfit if experts would compute something else.
    """
    forward = found.owner.method("forward")
    assert forward is not None
    if len(set(held(found.layer, found.attribute))) > 1:
        raise Unfit(
            found.layer.node, f"`{found.attribute}` of {found.layer.name} is one of several classes"
        )
    names = {part: code.removeprefix("self.") for part, code in found.parts.items()}
    ups = [names[part] for part in ("gate", "up") if part in names]
    whole = "down" in names
    made = _linear(found.owner, forward, [*ups, names["down"]] if whole else ups)
    own = f"self.{found.attribute}"
    first = f"{own}.{ups[0]}"
    halves = " // 2" if found.form == "halves" else ""
    dropout = names.get("drop") or names.get("rate", "")
    before = "" if dropout else f"{found.attribute}."
    down, idle = (f"{before}{names['down']}", ()) if whole else _in_another(module, found, made)
    kept = f"{own}.{dropout}" if "drop" in names else f"nn.Dropout({own}.{dropout})"
    return Dense(
        attribute=found.attribute,
        place="0" if dropout else found.attribute,
        up=tuple(f"{before}{name}" for name in ups),
        down=down,
        gated=found.form in ("gated", "halves"),
        width=f"{first}.{WIDTHS[made]}{halves}",
        bias=f"{first}.bias is not None",
        activation=_activation(found, forward),
        transposed=made == "Conv1D",
        dropout=kept if dropout else "",
        idle=idle,
    )


def _in_another(module: Module, found: FeedForward, made: str) -> tuple[str, tuple[str, ...]]:
    """(the second linear layer, what stands idle): another module begins with it."""
    attribute, owner = _second(module, found)
    forward = owner.method("forward")
    assert forward is not None
    first = forward.body[0]
    value = first.value if isinstance(first, ast.Assign | ast.Return) else None
    name = called(value).removeprefix("self.")
    is_linear = isinstance(value, ast.Call) and role_of(owner, name) == "L"
    if not is_linear or _uses(owner, name) != 1:
        raise Unfit(forward, f"{owner.name} does not begin with a linear layer")
    if _linear(owner, forward, [name]) != made:
        raise Unfit(forward, "the two linear layers of the FFN are of two kinds")
    return f"{attribute}.{name}", (f"self.{attribute}.{name}",)


def _second(module: Module, found: FeedForward) -> tuple[str, Class]:
    """The module of the layer that takes the output of the first half."""
    shape = ast.parse(f"y = self.{found.attribute}(x)\nz = second(y, ...)").body
    for method in found.layer.own.values():
        for match in find(shape, method, {"x", "y", "z", "second"}):
            attribute = last(dotted(match.bound.holes["second"]))
            names = held(found.layer, attribute)
            owners = [module.classes[name] for name in names if name in module.classes]
            if len(owners) == 1:
                return attribute, owners[0]
    raise Unfit(found.layer.node, f"the second half of the FFN of {found.layer.name} is not found")


def _linear(owner: Class, forward: ast.FunctionDef, attributes: list[str]) -> str:
    """The class that the linear layers have in common."""
    values = [value for name in attributes for value in owner.attributes.get(name, ())]
    made = {last(called(value)) for value in values}
    if len(values) != len(attributes) or len(made) != 1 or not made <= WIDTHS.keys():
        kinds = " and ".join(sorted(made - WIDTHS.keys())) or "several"
        raise Unfit(
            forward,
            f"the linear layers of {owner.name} are of a kind that experts have not: {kinds}",
        )
    return made.pop()


def _activation(found: FeedForward, forward: ast.FunctionDef) -> str:
    act, owner = found.parts["act"], found.owner
    if not act.startswith("self."):
        package, _, function = act.rpartition(".")
        if package in ("F", "nn.functional", "torch.nn.functional") and function in OF_TORCH:
            return repr(function)
        raise Unfit(forward, f"`{act}` is not known as an activation")
    name = act.removeprefix("self.")
    values, init = owner.attributes.get(name, ()), owner.method("__init__")
    # BERT takes a name or a function; other activations that are chosen may have weights.
    by_kind = init is not None and any(
        "isinstance(" in ast.unparse(node.test) for node in walk(init.body, ast.If)
    )
    if len(values) != 1 and not (by_kind and len(values) == 2):
        raise Unfit(forward, f"the activation of {owner.name} is made in several ways")
    return f"self.{found.attribute}.{name}"


def _uses(owner: Class, attribute: str) -> int:
    """How often methods other than `__init__` read `self.ATTRIBUTE`."""
    return sum(
        dotted(node) == f"self.{attribute}"
        for name, method in owner.own.items()
        if name != "__init__"
        for node in walk(method.body, ast.Attribute)
    )
