"""The flash part: no padding, in an encoder built as BERT or a causal model built as Llama."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache

from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.tokens import Tokens
from patchgen.author.declare.fitting import Mixin, mixins
from patchgen.author.declare.variant import Contribution, Declared, Missing
from patchgen.facts.modules import CACHES

ENCODER = (
    "No padding is computed: real tokens are taken out of the batch once, behind the embeddings, "
    "and put back after the last layer. Attention is transformers' own, under every "
    "`attn_implementation`. What comes out at real tokens is the parent's own; at padding it is "
    "zeros. See `patchgen.parts.flash`."
)
DECODER = (
    "No padding is computed where attention takes the lengths of texts: under FlashAttention and "
    'under "varlen", which `import patchgen.runtime` registers. Real tokens are taken out of the '
    "batch once, and put back after the last layer; packed texts are told apart by positions that "
    "restart. What comes out at real tokens is the parent's own; at padding it is zeros. Under any "
    "other `attn_implementation` it is the parent. See `patchgen.parts.flash`."
)
ARGUMENTS = {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "use_cache"}
COUNTED = ("create_position_ids_from_input_ids", "create_position_ids_from_inputs_embeds")
GENERIC_READER = "GenericForQuestionAnswering"  # transformers' head for any model, in another file
HINT = (
    "write the forward of the base model by `patchgen.parts.flash` where you know what looks at "
    "which token"
)
PASSED_ON = CACHES | {"attentions", "cross_attentions", "hidden_states", "pooler_output"}


class _No(Exception):
    def __init__(self, node: ast.AST | None, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def flash(module: Module) -> Contribution:
    """What the part declares for `module`."""
    try:
        model, encodes = _model(module)
        declared = tuple(_encoder(module, model) if encodes else _decoder(module, model))
    except _No as no:
        at = module.at(no.node or module.tree)
        hint = HINT if no.node is not None else ""
        return Contribution("flash", missing=(Missing(at, no.what, True, hint),))
    names = sorted({name for one in declared for name in one.mixins})
    imports = (f"from patchgen.parts.flash import {', '.join(names)}",)
    return Contribution("flash", ENCODER if encodes else DECODER, declared, imports)


def _model(module: Module) -> tuple[Class, bool]:
    """(the base model, whether it is an encoder)."""
    if not _attending(module):
        raise _No(
            None, "no attention calls transformers' interface in the form of BERT's or Llama's"
        )
    models = [one for one in module.classes.values() if one.descends("PreTrainedModel")]
    found = [(one, True) for one in models if _fits("PaddingFreeEncoder", one)]
    found += [
        (one, False) for one in models if _fits("PaddingFreeDecoder", one) and _is_causal(one)
    ]
    if len(found) != 1:
        raise _No(
            module.tree, "there is not one base model of BERT's or Llama's structure in this file"
        )
    return found[0]


def _is_causal(owner: Class) -> bool:
    """Whether it has the parameters of Llama and rotary positions."""
    arguments = owner.own["forward"].args
    given = {arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)} - {"self"}
    return given - CACHES == ARGUMENTS and "rotary_emb" in owner.attributes


def _fits(mixin: str, owner: Class) -> bool:
    forward = owner.own.get("forward")
    return forward is not None and _mixin(mixin).fits({"forward": forward})


@cache
def _mixin(name: str) -> Mixin:
    return next(one for one in mixins("flash") if one.name == name)


def _encoder(module: Module, model: Class) -> Iterator[Declared]:
    tokens = _insist_on_layers(module, model)
    for owner in _attending(module):
        if "encoder_hidden_states" in {arg.arg for arg in owner.own["forward"].args.args}:
            continue
        if not _fits("AttendsInRows", owner):
            raise _No(owner.own["forward"], f"{owner.name} calls attention otherwise than once")
        yield Declared(owner.name, mixins=("AttendsInRows",))
    pools = ("PoolsEachText",) if _pools(module, tokens, model) else ()
    counts = ("CountsFromPadding",) if _counts_from_padding(module, tokens, model) else ()
    yield Declared(model.name, mixins=(*pools, *counts, "PaddingFreeEncoder"))
    yield from _heads(module, tokens, model)


def _decoder(module: Module, model: Class) -> Iterator[Declared]:
    forward = model.own["forward"]
    if experts(module):
        raise _No(forward, "the losses of its routers read the rows of a batch")
    flags = {
        ast.unparse(node)
        for one in module.pretrained
        for node in one.node.body
        if isinstance(node, ast.Assign)
    }
    if "_supports_flash_attn = True" not in flags:
        raise _No(None, "it takes no FlashAttention, which is told the lengths of texts")
    if not any(
        ast.unparse(node) == "hidden_states = inputs_embeds"
        for node in walk(forward.body, ast.Assign)
    ):
        raise _No(forward, f"the states of {model.name} do not begin as `inputs_embeds`")
    _insist_on_layers(module, model)
    yield Declared(model.name, mixins=("PaddingFreeDecoder",))
    heads = (one for one in module.classes.values() if _fits("LabelsWithinTexts", one))
    yield from (Declared(one.name, mixins=("LabelsWithinTexts",)) for one in heads)
    readers = (one for one in module.classes.values() if GENERIC_READER in one.bases)
    yield from (Declared(one.name, mixins=("KeepsPadding",)) for one in readers)


def _attending(module: Module) -> list[Class]:
    """The classes that call the attention interface and pass their keyword arguments to it."""
    return [
        one
        for one in module.classes.values()
        if "forward" in one.own and _calls_attention(one.own["forward"])
    ]


def _calls_attention(forward: ast.FunctionDef) -> bool:
    return any(
        called(call) == "attention_interface"
        and any(keyword.arg is None for keyword in call.keywords)
        for call in walk(forward.body, ast.Call)
    )


def _insist_on_layers(module: Module, model: Class) -> Tokens:
    """Refuse layers that may look at other tokens."""
    tokens = Tokens(module, {one.name for one in _attending(module)})
    through = dict.fromkeys(_layers(module, tokens, model))
    if not any(_holds_attention(module, one, tokens) for one in through):
        raise _No(model.own["forward"], f"{model.name} goes through no list of layers that attend")
    for kind in through:
        if (reason := tokens.beside(kind)) is not None:
            raise _No(reason.node, reason.what)
    return tokens


def _layers(module: Module, tokens: Tokens, model: Class) -> Iterator[Class]:
    """The classes through which states go, from the first layer to the last."""
    yield from tokens.layers(model)
    for attribute in model.attributes:
        is_called = any(
            called(call) == f"self.{attribute}"
            for call in walk(model.own["forward"].body, ast.Call)
        )
        if is_called and attribute not in ("pooler", "rotary_emb") and "embed" not in attribute:
            for name in tokens.held(model, attribute):
                if name in module.classes:
                    yield from (module.classes[name], *tokens.layers(module.classes[name]))


def _holds_attention(module: Module, owner: Class, tokens: Tokens) -> bool:
    names = {name for attribute in owner.attributes for name in tokens.held(owner, attribute)}
    inner = [
        module.classes[name] for name in names if name in module.classes and name != owner.name
    ]
    return bool(names & set(tokens.attending)) or any(
        _holds_attention(module, one, tokens) for one in inner
    )


def _counts_from_padding(module: Module, tokens: Tokens, model: Class) -> bool:
    """Whether positions start after that of padding, as in RoBERTa."""
    held = [
        module.classes[name] for name in tokens.held(model, "embeddings") if name in module.classes
    ]
    return any(
        all(one.method(name) for name in COUNTED) and "padding_idx" in one.attributes
        for one in held
    )


def _pools(module: Module, tokens: Tokens, model: Class) -> bool:
    """Whether it has a pooler, which takes the first position of each row.

    Raises _No where that takes something else.
    """
    if "pooler" not in model.attributes:
        return False
    for name in tokens.held(model, "pooler"):
        owner = module.classes.get(name)
        forward = owner.method("forward") if owner is not None else None
        reads = list(walk(forward.body, ast.Subscript)) if forward is not None else []
        if len(reads) != 1 or not is_first(reads[0]):
            raise _No(forward or model.node, f"{name} pools more than the first token")
    if not _fits("PoolsEachText", model):
        raise _No(model.own["forward"], f"{model.name} calls its pooler otherwise than once")
    return True


def _heads(module: Module, tokens: Tokens, model: Class) -> Iterator[Declared]:
    """The heads that read places where padding may stand."""
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        holding = [
            attribute
            for attribute in owner.attributes
            if model.name in tokens.held(owner, attribute)
        ]
        if forward is None or not holding:
            continue
        for node in walk(forward.body, ast.Attribute):
            if dotted(node.value) in {f"self.{one}" for one in holding}:
                raise _No(node, f"{owner.name} goes through the parts of {model.name} itself")
        if not reads_padding(module, tokens, owner, forward, holding):
            continue
        init = owner.own.get("__init__")
        if init is None or [arg.arg for arg in init.args.args] != ["self", "config"]:
            raise _No(
                owner.node,
                f"{owner.name} reads whole rows, and is made of more than a configuration",
            )
        yield Declared(owner.name, mixins=("KeepsPadding",))


def is_first(node: ast.Subscript) -> bool:
    """`states[:, 0]`, with further axes or not."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None), ast.Constant(value=0), *rest]):
            return all(isinstance(one, ast.Slice) for one in rest)
        case _:
            return False


def reads_padding(
    module: Module, tokens: Tokens, owner: Class, forward: ast.FunctionDef, holding: Collection[str]
) -> bool:
    """Whether a head reads states at padding.

    It does not if it reads each token alone, or the first of each row.
    """
    states = _states(forward, holding)
    if states is None:
        return True
    alone: set[int] = set()  # where each token is read alone
    for node in walk(forward.body, ast.stmt):
        if not isinstance(node, ast.Assign | ast.Return):
            continue
        for call in walk(node, ast.Call):
            given = [one for one in call.args if dotted(one) in states]
            if not given or not called(call).startswith("self.") or _is_loss(call):
                continue
            if _takes_first(module, tokens, owner, call):
                return False
            if tokens.unfit(owner, call) is not None:
                return True
            alone |= {id(one) for one in given}
            if isinstance(node, ast.Assign) and node.value is call:
                # The result has a state for each token as well.
                states |= {one.id for one in walk(node.targets, ast.Name)}
    # What is only passed on does not depend on the values at padding.
    alone |= {id(one) for one in _passed_on(forward)}
    for name in walk(forward.body, ast.Name):
        is_read = name.id in states and isinstance(name.ctx, ast.Load)
        if is_read and id(name) not in alone:
            return True
    return False


def _is_loss(call: ast.Call) -> bool:
    return last(called(call)).startswith("loss")


def _takes_first(module: Module, tokens: Tokens, owner: Class, call: ast.Call) -> bool:
    """Whether a head reads only the first position of each row."""
    for name in tokens.held(owner, last(called(call))):
        head = module.classes.get(name)
        inner = head.method("forward") if head is not None else None
        reads = list(walk(inner.body, ast.Subscript)) if inner is not None else []
        if len(reads) == 1 and is_first(reads[0]) and tokens.unfit(owner, call) is None:
            return True
    return False


def _passed_on(forward: ast.FunctionDef) -> list[ast.expr]:
    """Where values are passed to losses and outputs, or read by rows or for their shape."""
    found: list[ast.expr] = []
    for node in walk(forward.body, ast.AST):
        match node:
            case ast.Call() if (
                _is_loss(node) or "Output" in called(node) or called(node) == "slice_logits_to_keep"
            ):
                found += [*node.args, *(keyword.value for keyword in node.keywords)]
            case ast.Call(func=ast.Attribute(value=value, attr="view"), args=[first, _]) if (
                constant(first) == -1
            ):
                found.append(value)
            case ast.Tuple(elts=elements):
                found += elements
            case ast.Subscript(value=value, slice=index) if "slice_indices" in ast.unparse(index):
                found.append(value)
            case ast.Attribute(value=value, attr="shape" | "device" | "dtype"):
                found.append(value)
    return found


def _states(forward: ast.FunctionDef, holding: Collection[str]) -> set[str] | None:
    """The names of the states that `self.HOLDING` returns; None if they cannot be followed."""
    own = {f"self.{one}" for one in holding}
    calls = [call for call in walk(forward.body, ast.Call) if called(call) in own]
    if len(calls) != 1 or not (out := _bound(forward, calls[0])):
        return None
    states: set[str] = set()
    followed = 0
    for node in walk(forward.body, ast.Assign):
        match node.targets, node.value:
            case [ast.Name(id=name)], ast.Subscript(
                value=ast.Name(id=of), slice=ast.Constant(value=number)
            ) if of == out:
                states |= {name} if number == 0 else set()
                followed += 1
            case [ast.Name(id=name)], ast.Attribute(value=ast.Name(id=of), attr=attr) if of == out:
                states |= {name} if attr == "last_hidden_state" else set()
                followed += 1
            case [ast.Tuple(elts=[ast.Name(id=name), *_])], ast.Subscript(
                value=ast.Name(id=of)
            ) if of == out:
                states.add(name)
                followed += 1
    for attribute in walk(forward.body, ast.Attribute):
        if dotted(attribute.value) == out and attribute.attr in PASSED_ON:
            followed += 1
    reads = 0
    for one in walk(forward.body, ast.Name):
        if one.id == out and isinstance(one.ctx, ast.Load):
            reads += 1
    return states if followed == reads else None


def _bound(forward: ast.FunctionDef, call: ast.Call) -> str:
    """The name that is bound to the result of `call`."""
    for node in walk(forward.body, ast.stmt):
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=value)
            ) if value is call:
                return dotted(target)
    return ""
