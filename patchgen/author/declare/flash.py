"""The flash part: no padding, in an encoder built as BERT or a causal model built as Llama."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from patchgen.author.anatomy.code import called, dotted, last, walk
from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.tokens import Tokens
from patchgen.author.declare.fitting import Mixin, mixins
from patchgen.author.declare.flash_heads import is_first, reads_padding
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
    """Refuse layers that may look at other tokens, and other reads of the mask or positions."""
    _insist_on_reads(model, model.own["forward"])
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


def _insist_on_reads(model: Class, forward: ast.FunctionDef) -> None:
    """Refuse code that does more with the mask or the positions than pass them on."""
    handed: set[int] = set()
    for node in walk(forward.body, ast.AST):
        match node:
            case ast.Call(args=args, keywords=keywords) if _hands_on(node):
                values: list[ast.expr | None] = [*args, *(keyword.value for keyword in keywords)]
            case ast.Compare(left=left, comparators=comparators):
                values = [left, *comparators]
            case ast.Dict(values=values_of_dict):
                values = [*values_of_dict]
            case ast.Assign(value=ast.Name() as value) | ast.NamedExpr(value=ast.Name() as value):
                values = [value]
            case ast.Call(func=ast.Attribute(value=value, attr="unsqueeze")):
                values = [value]
            case _:
                continue
        handed |= {
            id(one) for value in values if value is not None for one in walk(value, ast.Name)
        }
    for name in walk(forward.body, ast.Name):
        if (
            name.id in ("attention_mask", "position_ids")
            and isinstance(name.ctx, ast.Load)
            and id(name) not in handed
        ):
            raise _No(name, f"{model.name} reads `{name.id}` here")


def _hands_on(call: ast.Call) -> bool:
    name = called(call)
    makes_mask = last(name).startswith("create_") and last(name).endswith("_mask")
    return (
        name.startswith("self.")
        or makes_mask
        or last(name) in ("isinstance", "dict")
        or "layer" in name
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
