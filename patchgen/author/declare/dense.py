"""The FFN of a dense layer in the form that experts have: its linear layers and its activation.

Takes a feed-forward network; returns a `Dense`, or raises with the reason why experts would compute
something else.  Dropouts, casts and numbers, which `anatomy.ffn` leaves out, are refused here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Reason
from patchgen.author.anatomy.code import CASTS, argument, called, dotted, last, method_of, walk
from patchgen.author.anatomy.ffn import FeedForward, Flow
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module

_UP, _GATE, _DOWN = (rf"(?P<{name}>\w+)" for name in ("up", "gate", "down"))
_ACT = r"(?P<act>=?[\w.]+)"
# L is a linear layer, A an activation, D a dropout; in brackets, its attribute, or `=` and a name.
GATED = re.compile(rf"L\[{_DOWN}\]\(\(A\[{_ACT}\]\(L\[{_GATE}\]\(x\)\)\*L\[{_UP}\]\(x\)\)\)")
FUSED = re.compile(
    rf"L\[{_DOWN}\]\(\(A\[{_ACT}\]\(C0\(L\[{_UP}\]\(x\)\)\)\*C1\(L\[(?P=up)\]\(x\)\)\)\)"
)
PLAIN = re.compile(rf"L\[{_DOWN}\]\(A\[{_ACT}\]\(L\[{_UP}\]\(x\)\)\)")
SPLIT = re.compile(rf"A\[{_ACT}\]\(L\[{_UP}\]\(x\)\)")
BEHIND = re.compile(r"D\[(?P<rate>\.?\w+)\]\((?P<term>.*)\)")
SECOND = re.compile(rf"L\[{_DOWN}\]\(x\)")
# The attribute with the number of output features, by class of linear layer.
WIDTHS = {"Linear": "out_features", "Conv1D": "nf"}
# The functions of torch that are activations of transformers by the same name.
OF_TORCH = ("gelu", "relu", "silu", "sigmoid", "tanh")
# Other names of `hidden_size`, the width of the input and output of a mixture.
HIDDEN = ("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", "dim", "n_embed")


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


class _Named(Flow):
    """Terms with names of attributes and dropouts; `?` is a value that no expert computes."""

    def term(self, node: ast.expr) -> str:
        if isinstance(node, ast.Call) and method_of(node) in CASTS:
            return "?"
        return super().term(node)

    def _product(self, left: str, right: str) -> str:
        return "?" if "?" in left + right else super()._product(left, right)

    def _applied(self, node: ast.Call, value: str) -> str:
        name = called(node)
        plain = super()._applied(node, value)
        own = last(name) if name.startswith("self.") else ""
        if plain == value and value != "?":
            if own and self._made(own) == "Identity":
                return value
            return f"D[{_rate(node, own)}]({value})"
        if own and plain.startswith(("A(", "L(")):
            return f"{plain[0]}[{own}]({value})"
        is_function = plain.startswith("A(") and not own
        if is_function and len(node.args) == 1 and not node.keywords:
            return f"A[={name}]({value})"
        return "?"

    def _made(self, attribute: str) -> str:
        values = self.owner.attributes.get(attribute, ())
        return last(called(values[0])) if len(values) == 1 else ""


def _rate(node: ast.Call, own: str) -> str:
    """The attribute of a dropout, or `.` and the attribute of its rate; `?` if there is none."""
    if own:
        return own
    rate = dotted(argument(node, 1, "p"))
    return f".{last(rate)}" if rate.startswith("self.") and rate.count(".") == 1 else "?"


def dense(module: Module, found: FeedForward) -> Dense:
    """The FFN `found` in the form of experts.

    Raises Unfit if experts would compute something else.
    """
    forward = found.owner.method("forward")
    assert forward is not None
    if found.form == "inline":
        raise Unfit(forward, f"the FFN of {found.layer.name} is no module of its own")
    if len(set(held(found.layer, found.attribute))) > 1:
        raise Unfit(
            found.layer.node, f"`{found.attribute}` of {found.layer.name} is one of several classes"
        )
    flow = _Named(found.owner, forward)
    result = flow.result()
    if found.form == "split":
        return _split(module, found, forward, result)
    behind = BEHIND.fullmatch(result)
    for pattern, gated in ((GATED, True), (FUSED, True), (PLAIN, False)):
        if match := pattern.fullmatch(behind["term"] if behind else result):
            return _whole(
                module, found, forward, match, gated=gated, dropout=behind["rate"] if behind else ""
            )
    raise Unfit(forward, f"{found.owner.name} computes more than experts do: {_short(result)}")


def _whole(
    module: Module,
    found: FeedForward,
    forward: ast.FunctionDef,
    match: re.Match[str],
    *,
    gated: bool,
    dropout: str,
) -> Dense:
    """A mixture in place of the whole FFN, except for a dropout at its end."""
    names, own = match.groupdict(), f"self.{found.attribute}"
    ups = [names[name] for name in ("gate", "up") if names.get(name)]
    made = _linear(found.owner, forward, [*ups, names["down"]])
    _takes_hidden(found.owner, ups[0], made)
    first = f"{own}.{ups[0]}"
    # The two halves of one product are as wide as one of them, rows of both one above the other.
    width = f"{first}.{WIDTHS[made]}" + (" // 2" if gated and len(ups) == 1 else "")
    before = "" if dropout else f"{found.attribute}."
    kept, rate = f"{own}.{dropout}", f"nn.Dropout({own}{dropout})"
    return Dense(
        attribute=found.attribute,
        place="0" if dropout else found.attribute,
        up=tuple(f"{before}{name}" for name in ups),
        down=f"{before}{names['down']}",
        gated=gated,
        width=width,
        bias=f"{first}.bias is not None",
        activation=_activation(module, found.owner, forward, names["act"], own),
        transposed=made == "Conv1D",
        dropout=rate if dropout.startswith(".") else kept if dropout else "",
    )


def _split(module: Module, found: FeedForward, forward: ast.FunctionDef, result: str) -> Dense:
    """The second linear layer is the first thing in another module of the layer."""
    match = SPLIT.fullmatch(result)
    if match is None:
        raise Unfit(
            forward, f"{found.owner.name} computes more than a linear layer and an activation"
        )
    second, owner = _second(module, found)
    other = owner.method("forward")
    assert other is not None
    flow = _Named(owner, other)
    after = None
    for statement in walk(other.body, ast.stmt):
        flow.statement(statement)
        for value in flow.values.values():
            after = after or SECOND.search(value)
    if after is None or _uses(owner, after["down"]) != 1:
        raise Unfit(other, f"{owner.name} does not begin with a linear layer")
    made = _linear(found.owner, forward, [match["up"]])
    _takes_hidden(found.owner, match["up"], made)
    if _linear(owner, other, [after["down"]]) != made:
        raise Unfit(other, "the two linear layers of the FFN are of two kinds")
    own, down = f"self.{found.attribute}", f"{second}.{after['down']}"
    return Dense(
        attribute=found.attribute,
        place=found.attribute,
        up=(f"{found.attribute}.{match['up']}",),
        down=down,
        gated=False,
        width=f"{own}.{match['up']}.{WIDTHS[made]}",
        bias=f"{own}.{match['up']}.bias is not None",
        activation=_activation(module, found.owner, forward, match["act"], own),
        transposed=made == "Conv1D",
        idle=(f"self.{down}",),
    )


def _second(module: Module, found: FeedForward) -> tuple[str, Class]:
    """The one module of the layer that takes the output of the first half."""
    for method in found.layer.own.values():
        for statement in walk(method.body, ast.Assign):
            target = statement.targets[0]
            is_first_half = called(statement.value) == f"self.{found.attribute}"
            if not is_first_half or not isinstance(target, ast.Name):
                continue
            calls = [
                call for call in _calls_with(method, target.id) if called(call).startswith("self.")
            ]
            if len(calls) != 1 or _count_reads(method, target.id) != 1:
                what = f"the output of `{found.attribute}` goes into more than one module"
                raise Unfit(method, what)
            attribute = last(called(calls[0]))
            names = held(found.layer, attribute)
            owners = [module.classes[name] for name in names if name in module.classes]
            if len(owners) == 1:
                return attribute, owners[0]
    raise Unfit(found.layer.node, f"the second half of the FFN of {found.layer.name} is not found")


def _calls_with(method: ast.FunctionDef, name: str) -> Iterator[ast.Call]:
    """The calls that are assigned or returned, with `name` as the first argument."""
    for node in walk(method.body, ast.stmt):
        match node:
            case ast.Assign(value=ast.Call(args=[first, *_]) as call):
                pass
            case ast.Return(value=ast.Call(args=[first, *_]) as call):
                pass
            case _:
                continue
        if dotted(first) == name:
            yield call


def _count_reads(method: ast.FunctionDef, name: str) -> int:
    names = walk(method.body, ast.Name)
    return sum(node.id == name and isinstance(node.ctx, ast.Load) for node in names)


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


def _takes_hidden(owner: Class, attribute: str, made: str) -> None:
    """Refuse a first linear layer whose input has another width than the hidden states."""
    call = owner.attributes[attribute][0]
    place = 1 if made == "Conv1D" else 0
    if isinstance(call, ast.Call) and len(call.args) > place:
        width = _resolved(owner, call.args[place])
        if width.startswith("config.") and last(width) not in HIDDEN:
            raise Unfit(
                call,
                f"the FFN of {owner.name} takes `{width}` features, and experts take `hidden_size`",
            )


def _resolved(owner: Class, node: ast.expr) -> str:
    """The text of a number of features, an attribute or a local name looked up once."""
    values: tuple[ast.expr, ...] = ()
    if dotted(node).startswith("self.") and dotted(node).count(".") == 1:
        values = owner.attributes.get(last(dotted(node)), ())
    elif isinstance(node, ast.Name) and (init := owner.method("__init__")) is not None:
        values = tuple(
            one.value
            for one in walk(init.body, ast.Assign)
            if any(dotted(target) == node.id for target in one.targets)
        )
    found = values[0] if len(values) == 1 else node
    return ast.unparse(found).removeprefix("self.")


def _function(module: Module, forward: ast.FunctionDef, name: str) -> str:
    """A function as the activation of experts: the name of one of torch, else the function."""
    package, _, function = name.rpartition(".")
    if package in ("F", "nn.functional", "torch.nn.functional") and function in OF_TORCH:
        return repr(function)
    if name in module.functions:
        return f"{module.alias}.{name}"  # ESM's GELU is not torch's in the last bits.
    raise Unfit(forward, f"`{name}` is not known as an activation")


def _activation(
    module: Module, owner: Class, forward: ast.FunctionDef, name: str, below: str
) -> str:
    if name.startswith("="):
        return _function(module, forward, name[1:])
    values, init = owner.attributes.get(name, ()), owner.method("__init__")
    # BERT takes a name or a function; other activations that are chosen may have weights.
    by_kind = init is not None and any(
        "isinstance(" in ast.unparse(node.test) for node in walk(init.body, ast.If)
    )
    if len(values) != 1 and not (by_kind and len(values) == 2):
        raise Unfit(forward, f"the activation of {owner.name} is made in several ways")
    return f"{below}.{name}"


def _uses(owner: Class, attribute: str) -> int:
    """How often methods other than `__init__` read `self.ATTRIBUTE`."""
    return sum(
        dotted(node) == f"self.{attribute}"
        for name, method in owner.own.items()
        if name != "__init__"
        for node in walk(method.body, ast.Attribute)
    )


def _short(term: str) -> str:
    return f"`{term}`" if len(term) <= 80 else f"`{term[:77]}...`"
