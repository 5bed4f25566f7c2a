"""The FFN of a dense layer as a mixture's experts have it: which modules are its linear layers and its activation.

In: a feed-forward network that anatomy found.  Out: a `Dense`, or why experts would not compute what it does.  This is
stricter than anatomy, which leaves dropouts, casts and numbers out: here they are in the way.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from patchgen.author.anatomy.attention import Reason
from patchgen.author.anatomy.code import CASTS, argument, called, dotted, last, method_of, walk
from patchgen.author.anatomy.ffn import FeedForward, Flow
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module

_UP, _GATE, _DOWN = (rf"(?P<{name}>\w+)" for name in ("up", "gate", "down"))
_ACT = r"(?P<act>=?[\w.]+)"
# L: a linear layer, A: an activation, by the attribute that holds it or by its name after `=`; D: a dropout.
GATED = re.compile(rf"L\[{_DOWN}\]\(\(A\[{_ACT}\]\(L\[{_GATE}\]\(x\)\)\*L\[{_UP}\]\(x\)\)\)")
FUSED = re.compile(
    rf"L\[{_DOWN}\]\(\(A\[{_ACT}\]\(C0\(L\[{_UP}\]\(x\)\)\)\*C1\(L\[(?P=up)\]\(x\)\)\)\)"
)
PLAIN = re.compile(rf"L\[{_DOWN}\]\(A\[{_ACT}\]\(L\[{_UP}\]\(x\)\)\)")
SPLIT = re.compile(rf"A\[{_ACT}\]\(L\[{_UP}\]\(x\)\)")
BEHIND = re.compile(r"D\[(?P<rate>\.?\w+)\]\((?P<term>.*)\)")
SECOND = re.compile(rf"L\[{_DOWN}\]\(x\)")
# How many features a linear layer gives, by its class.
WIDTHS = {"Linear": "out_features", "Conv1D": "nf"}
# The functions of torch that are activations of transformers by the same name.
OF_TORCH = ("gelu", "relu", "silu", "sigmoid", "tanh")
# What configurations call `hidden_size`, which is what goes into a mixture and comes out.
HIDDEN = ("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", "dim", "n_embed")


@dataclass(frozen=True, slots=True)
class Dense:
    """The FFN of a layer, `layer.attribute`, in whose place the mixture stands.

    `place` is what the mixture is called where it stands, and `up` and `down` what the dense layers are called there,
    which is in the layer or, before a dropout, in a Sequential.  `idle` are attributes of the layer whose work the
    mixture does too.  `width`, `bias`, `activation` and `dropout` are code, "" where there is no dropout.
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
    """Terms with the names of attributes, dropouts kept, `?` for whatever experts do not compute."""

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
            return (
                value
                if own and self._made(own) == "Identity"
                else f"D[{_rate(node, own)}]({value})"
            )
        if plain.startswith("A(") and not own:
            return f"A[={name}]({value})" if len(node.args) == 1 and not node.keywords else "?"
        return f"{plain[0]}[{own}]({value})" if own and plain[:2] in ("A(", "L(") else "?"

    def _made(self, attribute: str) -> str:
        values = self.owner.attributes.get(attribute, ())
        return last(called(values[0])) if len(values) == 1 else ""


def _rate(node: ast.Call, own: str) -> str:
    """The attribute that is a dropout, or `.` and the attribute that is its rate; `?` for another rate."""
    rate = argument(node, 1, "p")
    if own:
        return own
    return (
        f".{last(dotted(rate))}"
        if dotted(rate).startswith("self.") and dotted(rate).count(".") == 1
        else "?"
    )


def dense(module: Module, found: FeedForward) -> Dense:
    """The FFN `found` as experts have it.

    Raises Unfit where they would compute something else.
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
    """A mixture in the place of the whole FFN, but for a dropout at its end."""
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
    """The module of the layer that is given what the first half gives, and nothing else is."""
    for method in found.layer.own.values():
        for statement in walk(method.body, ast.Assign):
            if called(statement.value) != f"self.{found.attribute}" or not isinstance(
                statement.targets[0], ast.Name
            ):
                continue
            name = statement.targets[0].id
            given = [
                (call, one.value)
                for one in walk(method.body, ast.stmt)
                for call in [getattr(one, "value", None)]
                if isinstance(call, ast.Call) and isinstance(one, ast.Assign | ast.Return)
                if call.args and dotted(call.args[0]) == name
            ]
            reads = [
                n
                for n in walk(method.body, ast.Name)
                if n.id == name and isinstance(n.ctx, ast.Load)
            ]
            calls = [call for call, _ in given if called(call).startswith("self.")]
            if len(calls) != 1 or len(reads) != 1:
                raise Unfit(
                    method, f"what `{found.attribute}` gives goes into more than one module"
                )
            attribute = last(called(calls[0]))
            owners = [
                module.classes[n] for n in held(found.layer, attribute) if n in module.classes
            ]
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


def _takes_hidden(owner: Class, attribute: str, made: str) -> None:
    """Raises Unfit where the first linear layer is known to take something else than the hidden states."""
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
    """A function as the activation of experts: one of torch by its name, one of the module itself as it is."""
    if (
        name.rpartition(".")[0] in ("F", "nn.functional", "torch.nn.functional")
        and last(name) in OF_TORCH
    ):
        return repr(last(name))
    if name in module.functions:
        return f"{module.alias}.{name}"  # ESM's GELU is not torch's in the last bits.
    raise Unfit(forward, f"`{name}` is not known as an activation")


def _activation(
    module: Module, owner: Class, forward: ast.FunctionDef, name: str, below: str
) -> str:
    if name.startswith("="):
        return _function(module, forward, name[1:])
    values, init = owner.attributes.get(name, ()), owner.method("__init__")
    # BERT's is a name or a function; an activation that is made otherwise may have weights.
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
