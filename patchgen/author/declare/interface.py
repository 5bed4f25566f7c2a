"""The sdpa part where attention can be a call of transformers' interface, as in its own models.

    scores = query @ key.transpose(2, 3)     if self.config._attn_implementation == "eager":
    ...                                          the statements as they were
    context = weights @ value           ->   else:
                                                 context, weights = attention_interface(
                                                     self, query, key, value, attention_mask, ...
                                                 )

It fits attentions of one mask, which transformers makes or which is the model's own, and at most
one bias.  Every other attention is one of `declare.sdpa`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import (
    called,
    constant,
    keywords,
    last,
    method_of,
    names,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class
from patchgen.author.anatomy.steps import CHECKS, Chain, Factor, Term
from patchgen.author.declare.edits import code, edit, indented
from patchgen.facts.modules import CAUSAL
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

IMPORTED = ("ALL_ATTENTION_FUNCTIONS", "Callable", "sdpa_attention_forward")
THREE_AXES = ("bmm", "baddbmm")  # (rows * heads, tokens, size)
ROWS_FIRST = (".transpose(1, 2)", ".permute(0, 2, 1, 3)")  # of (rows, heads, tokens, size)
WIDE = ("to(torch.float32)", "to(dtype=torch.float32)", "float()")
LOOKUP = """\
attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
    self.config._attn_implementation, sdpa_attention_forward
)"""
AXES = """\
if self.config._attn_implementation != "eager":
    {bias} = {bias}.unflatten(0, (-1, {heads})).expand(-1, -1, {states}.shape[1], -1)"""
ONCE = """\
if self.config._attn_implementation == "sdpa":
    # One mask for all layers, which would each make one of their own.
    {mask} = create_position_bias_mask({bias}, {mask}, False, {bias}, {bias})
    {bias} = None"""


@dataclass(frozen=True, eq=False)
class Once:
    """A `loop` over layers that gives each the same mask and bias, under these names."""

    owner: Class
    method: ast.FunctionDef
    loop: ast.For
    mask: str
    bias: str
    states: str


@dataclass(frozen=True, eq=False)
class Call:
    """What the call of the interface is given for `chain`; an empty text is left out."""

    chain: Chain
    mask: Term | None
    bias: Term | None
    is_causal: str  # an expression of the call, or a value of the class: "True", "False"
    shared: bool  # transformers makes the mask, in the form that each function takes
    once: Once | None = None

    @property
    def takes_blocks(self) -> bool:
        """Whether flex attention and functions of one's own get the mask that they need."""
        return self.shared or self.mask is None


def calls(attns: Attentions) -> list[Call] | None:
    """A call for each attention of the module; None if one of them does not fit."""
    if attns.interfaces or any(missed.attention for missed in attns.missed):
        return None
    if next(attns.obstacles, None) is not None:
        return None
    calls = []
    for chain in attns.chains:
        call = _call(attns, chain)
        if call is None:
            return None
        calls.append(call)
    return calls


def _call(attns: Attentions, chain: Chain) -> Call | None:
    masks = [term for term in chain.scores.terms if _is_mask(term)]
    biases = [term for term in chain.scores.terms if not _is_mask(term)]
    causal = _causal(attns, chain)
    if len(masks) > 1 or len(biases) > 1 or not causal:
        return None
    flat = _is_flat(chain.suite[chain.first])
    if flat != (chain.scores.heads is not None):
        return None
    mask = masks[0] if masks else None
    bias = biases[0] if biases else None
    shared = mask is not None and attns.follows(mask.value)
    if mask is not None and not _passes(mask, shared=shared):
        return None
    if bias is not None and bias.kind != "add":
        return None
    read = names(chain.kept)
    if "blank_scores" in read or (shared and any("mask" in name for name in read)):
        return None
    call = Call(chain, mask, bias, causal, shared)
    if not (flat or shared or _layout(chain).turned):
        return None  # nothing says that heads and tokens are the axes: Hiera has windows too
    return replace(call, once=_once(attns, call))


def _once(attns: Attentions, call: Call) -> Once | None:
    """The loop that gives its layers one mask and one bias, if a single loop does."""
    if call.bias is None or not call.shared or not _is_fixed(call):
        return None
    mask = _mask(call)
    bias = ast.unparse(call.bias.value)
    if not {mask, bias} <= {*parameters(call.chain.method)}:
        return None
    places: list[Once] = []
    for owner, method in attns.module.methods:
        for loop in walk(method.body, ast.For):
            for layer in walk(loop.body, ast.Call):
                given = {name: dotted(value) for name, value in keywords(layer).items()}
                given |= {dotted(node): dotted(node) for node in layer.args}
                its_mask = given.get(mask)
                its_bias = given.get(bias)
                if layer.args and its_mask and its_bias:
                    states = dotted(layer.args[0])
                    places.append(Once(owner, method, loop, its_mask, its_bias, states))
    if len(places) != 1:
        return None
    [once] = places
    if "config" not in once.owner.attributes and not once.owner.descends("PreTrainedModel"):
        return None
    heads = call.chain.scores.heads
    has_heads = heads is None or last(ast.unparse(heads)) in once.owner.attributes
    return once if has_heads else None


def _is_mask(term: Term) -> bool:
    return term.kind == "hide" or any("mask" in name for name in names(term.value))


def _passes(mask: Term, *, shared: bool) -> bool:
    """Whether the mask is a name, which the function of the interface can be given."""
    value = mask.value
    if shared:
        while method_of(value) == "to" and isinstance(value, ast.Call):
            assert isinstance(value.func, ast.Attribute)
            value = value.func.value
        return mask.kind == "add" and isinstance(value, ast.Name)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Invert):
        value = value.operand
    return isinstance(value, ast.Name) and not mask.factors


def _is_flat(statement: ast.stmt) -> bool:
    """Whether a product of the statement is over (rows * heads, tokens, size)."""
    return any(last(called(call)) in THREE_AXES for call in walk(statement, ast.Call))


def _causal(attns: Attentions, chain: Chain) -> str:
    """Whether a mask of None is causal: an expression, "" if the code does not say it."""
    said = chain.owner.is_causal
    everywhere = str(attns.causal)
    if next(attns.two_kinds, None) is None:
        return everywhere if said <= {everywhere} else ""
    if said or "is_decoder" not in chain.owner.attributes:
        return ""
    if "is_cross_attention" in stored(chain.method.body):
        return "self.is_decoder and not is_cross_attention"
    return "self.is_decoder"


# --- the edits


def edits_around(attns: Attentions, call: Call) -> Iterator[tuple[str, str]]:
    """Edits of other classes, by their names: mask and bias of all layers are added once."""
    once = call.once
    if once is None:
        return
    if call.is_causal == "True":
        for owner, method in attns.module.methods:
            for node in walk(method.body, ast.Call):
                if called(node) in CAUSAL:
                    # Without a mask there is nothing to add the bias to.
                    old = f"{called(node)}(...)"
                    new = f"{called(node)}(..., allow_is_causal_skip=False)"
                    yield owner.name, edit("make_the_mask", method, [old], [new])
    heads = call.chain.scores.heads
    named = {"mask": once.mask, "bias": once.bias, "states": once.states}
    added = [ONCE.format(**named)]
    if heads is not None:
        added.insert(0, AXES.format(heads=ast.unparse(heads), **named))
    head = ast.unparse(once.loop).partition("\n")[0]
    loop = code(attns.module, once.method, f"{head}\n    ...")
    text = edit("add_the_bias_once", once.method, [loop], added)
    yield once.owner.name, text.replace("    with new:", "    with before:")


def members(attns: Attentions, call: Call) -> list[str]:
    """The edit of the method, and `is_causal` where the class says it."""
    chain = call.chain
    layout = _layout(chain)
    end = layout.end
    first, *behind = chain.suite[chain.first : end + 1]
    moved = _before(chain, end)
    if moved:
        old = [first, *behind]
        eager = [_text(attns, chain, node) for node in old if node not in moved]
        texts = [_text(attns, chain, node) for node in old]
    else:
        eager = [_text(attns, chain, first)]
        if len(behind) > 1:
            eager.append("...")
        if behind:
            eager.append(_text(attns, chain, behind[-1]))
        texts = eager
    weights, lost = _weights(chain, end)
    body = [_text(attns, chain, node) for node in chain.kept if node not in moved]
    body += [f"{name} = None" for name in lost]
    arguments = ", ".join(_arguments(call))
    line = f"{layout.target}, {weights} = attention_interface(self, {arguments})"
    text = _text(attns, chain, line)
    body += [LOOKUP, text.replace("(not is_cross_attention)", "not is_cross_attention")]
    if layout.after:
        body.append(_text(attns, chain, layout.after))
    test = 'if self.config._attn_implementation == "eager":'
    new = [_text(attns, chain, node) for node in moved]
    new.append(f"{test}\n{indented(eager)}\nelse:\n{indented(body)}")
    text = edit("call_the_interface", chain.method, texts, new)
    if _is_fixed(call) and not chain.owner.is_causal:
        return [f"is_causal = {call.is_causal}", text]
    return [text]


def _before(chain: Chain, end: int) -> list[ast.stmt]:
    """The statements between that both ways need, if they can stand before the first."""
    moved = []
    read: set[str] = set()
    for node in chain.suite[chain.first : end + 1]:
        if node in chain.kept:
            if stored(node) & read:
                return []
            moved.append(node)
        else:
            read |= names(node) | stored(node)
    return moved if len(moved) == len(chain.kept) else []


def _is_fixed(call: Call) -> bool:
    return call.is_causal in ("True", "False")


def _text(attns: Attentions, chain: Chain, node: ast.AST | str) -> str:
    bare = (*IMPORTED, "attention_interface", "attn_output", "_")
    return code(attns.module, chain.method, node, bare)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the context goes: the call replaces the statements up to `end`, and binds `target`.

    `after` follows it.  The interface gives (rows, tokens, heads, size); `turned`: the parent goes
    on with that too.
    """

    end: int
    target: str
    after: str
    turned: bool


def _layout(chain: Chain) -> Layout:
    at, statement = chain.last, chain.suite[chain.last]
    target = next(iter(stored(statement)), "") if isinstance(statement, ast.Assign) else ""
    if isinstance(statement, ast.Assign) and statement.value is chain.product:
        for number, node in enumerate(chain.suite[at + 1 : at + 5], at + 1):
            if isinstance(node, ast.If) and isinstance(node.body[0], CHECKS):
                continue
            if not isinstance(node, ast.Assign) or stored(node) != {target}:
                break
            if _turned(node.value, target):
                return Layout(number, target, "", True)
            if method_of(node.value) != "view":
                break
    name = target if target and target not in names(statement) else "attn_output"
    text = ast.unparse(statement)
    product = ast.unparse(chain.product)
    for turn in ROWS_FIRST:
        for spelled in (f"({product}){turn}", f"{product}{turn}"):
            if spelled in text:
                return Layout(at, name, text.replace(spelled, name), True)
    given = f"{name}.transpose(1, 2)"
    if last(called(chain.product)) == "bmm":
        given += ".flatten(0, 1)"
    after = text.replace(f"({product})", given).replace(product, given)
    return Layout(at, name, after, False)


def _turned(value: ast.expr, name: str) -> bool:
    """Whether `value` is `name` with the tokens before the heads."""
    text = ast.unparse(value).removesuffix(".contiguous()")
    root: ast.expr = value
    while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
        root = root.func.value
    return isinstance(root, ast.Name) and root.id == name and text.endswith(ROWS_FIRST)


def _weights(chain: Chain, end: int) -> tuple[str, list[str]]:
    """The name of the weights that is read behind statement `end`, and others that are."""
    line = chain.suite[end].end_lineno or 0
    later = names(n for n in walk(chain.method.body, ast.Name) if n.lineno > line)
    read = [name for name in reversed(chain.weights) if name in later]
    return (read[0], read[1:]) if read else ("_", [])


def _arguments(call: Call) -> Iterator[str]:
    chain = call.chain
    scores = chain.scores
    heads = ast.unparse(scores.heads) if scores.heads is not None else ""
    flat = _is_flat(chain.suite[chain.first])
    for states in (scores.query, scores.key):
        text = _with_heads(states, heads) if flat else ast.unparse(states)
        if _is_widened(chain, states):
            # The scores alone are in float32: the function takes states of one dtype.
            text = f"{text}.to({ast.unparse(chain.value)}.dtype)"
        yield text
    flat = flat and last(called(chain.product)) == "bmm"
    yield _with_heads(chain.value, heads) if flat else ast.unparse(chain.value)
    yield _mask(call) if call.mask is not None else "None"
    if scores.dropout is not None:
        yield f"dropout={ast.unparse(scores.dropout)}"
    yield f"scaling={scaling(chain)}"
    if not _is_fixed(call):
        yield f"is_causal={call.is_causal}"
    if call.bias is not None:
        yield f"position_bias={_bias(call, call.bias, heads)}"


def _with_heads(states: ast.expr, heads: str) -> str:
    """States of (rows * heads, ..) as states of (rows, heads, ..)."""
    text = ast.unparse(states)
    if not isinstance(states, ast.Name):
        text = f"({text})"
    return f"{text}.unflatten(0, (-1, {heads}))"


def _is_widened(chain: Chain, states: ast.expr) -> bool:
    """Whether the method casts `states` to float32 first."""
    wide = {f"{ast.unparse(states)}.{cast}" for cast in WIDE}
    assigned = [node.value for node in walk(chain.method.body, ast.Assign)]
    return any(ast.unparse(value) in wide for value in assigned)


def _mask(call: Call) -> str:
    assert call.mask is not None
    value = call.mask.value
    if call.shared:
        return next(name.id for name in walk(value, ast.Name))
    if call.mask.kind == "add":
        return ast.unparse(value)
    if isinstance(value, ast.UnaryOp):
        return ast.unparse(value.operand)
    return f"~{ast.unparse(value)}"


def scaling(chain: Chain) -> str:
    """The factors of the scores as one number."""
    text = ""
    for factor in chain.scores.factors:
        operand = number(factor)
        if text:
            text = f"{text} {factor.operator} {operand}"
        else:
            text = operand if factor.operator == "*" else f"1 / {operand}"
    return text or "1.0"


def number(factor: Factor) -> str:
    """The operand of `factor`, or one if its condition is false."""
    value = ast.unparse(factor.value)
    if factor.condition is not None:
        return f"({value} if {ast.unparse(factor.condition)} else 1.0)"
    is_plain = isinstance(factor.value, ast.Name | ast.Attribute | ast.Call | ast.Constant)
    return value if is_plain else f"({value})"


def _bias(call: Call, bias: Term, heads: str) -> str:
    """The bias, of as many axes as the scores."""
    name = text = ast.unparse(bias.value)
    if heads and call.once is None:
        text = _with_heads(bias.value, heads)
    for factor in bias.factors:
        operand = ast.unparse(factor.value)
        values = call.chain.owner.attributes.get(last(operand), ())
        if [constant(value) for value in values] != [1.0]:
            text = f"{text} {factor.operator} {operand}"
    if bias.condition is None:
        return text
    condition = ast.unparse(bias.condition)
    if condition == f"{text} is not None":
        return text
    if condition == f"{name} is not None":
        # DeBERTa's may be a number, which is the same for every key.
        condition = f"isinstance({name}, torch.Tensor)"
    return f"({text} if {condition} else None)"
