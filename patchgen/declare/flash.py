"""The flash part for a model: no padding, in an encoder of BERT's or RoBERTa's structure or a decoder of Llama's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from patchgen.anatomy.code import called, dotted, last, walk
from patchgen.anatomy.experts import experts
from patchgen.anatomy.holding import held
from patchgen.anatomy.interface import interfaces
from patchgen.anatomy.module import Class, Module
from patchgen.anatomy.tokens import Tokens
from patchgen.declare.fitting import Mixin, mixins
from patchgen.declare.flash_heads import is_first, reading
from patchgen.declare.variant import Contribution, Declared, Missing

SAYS = (
    "No padding is computed: real tokens are taken out of the batch once, before the embeddings, and put back after "
    "the last layer; in between each text attends to itself, by FlashAttention-2 where the GPU has it. What comes out "
    'at real tokens is the parent\'s own; at padding it is zeros. `attn_implementation` is "sdpa" (the default) or '
    '"eager", which computes padding. See `patchgen.parts.flash`.'
)
# What the mixins hand on to the parent's forward.
ENCODER = frozenset(
    "input_ids attention_mask token_type_ids position_ids inputs_embeds encoder_hidden_states encoder_attention_mask "
    "past_key_values use_cache".split()
)
DECODER = frozenset("input_ids attention_mask position_ids past_key_values inputs_embeds use_cache".split())
COUNTED = ("create_position_ids_from_input_ids", "create_position_ids_from_inputs_embeds")
NOT_IN_FLASH = frozenset({"block_indices", "cache", "indices", "position_bias", "s_aux", "sinks", "softcap"})
GENERIC_READER = "GenericForQuestionAnswering"  # transformers' head for any model, in another file
HINT = "write the forward of the base model by `patchgen.parts.flash` where you know what looks at which token"


class _No(Exception):
    def __init__(self, node: ast.AST | None, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def flash(module: Module) -> Contribution:
    """What the part declares for `module`."""
    try:
        declared = tuple(_declared(module))
    except _No as no:
        at = module.at(no.node or module.tree)
        return Contribution("flash", missing=(Missing(at, no.what, True, HINT if no.node is not None else ""),))
    names = sorted({name for one in declared for name in one.mixins})
    return Contribution("flash", SAYS, declared, (f"from patchgen.parts.flash import {', '.join(names)}",))


def _declared(module: Module) -> Iterator[Declared]:
    attending = [one for one in module.classes.values() if _fits("AttendsInSequences", one)]
    if not attending:
        raise _No(None, "no attention calls transformers' interface in the form of BERT's or Llama's")
    if len(module.pretrained) != 1:
        raise _No(module.tree, "there is not one class below PreTrainedModel in this file")
    model, encodes = _model(module)
    tokens = Tokens(module, {one.name for one in attending}, set(held(model, "embeddings")))
    for kind in _layers(module, tokens, model):
        if (reason := tokens.beside(kind)) is not None:
            raise _No(reason.node, reason.what)
    used = [one for one in attending if _attends_to_itself(one)]
    for one in used:
        _insist_on_kernels(one)
    yield from (Declared(one.name, mixins=("AttendsInSequences",)) for one in used)
    yield Declared(module.pretrained[0].name, mixins=("FlashOrEager",))
    if not encodes:
        yield Declared(model.name, mixins=("PaddingFreeDecoder",))
        readers = (one for one in module.classes.values() if GENERIC_READER in one.bases)
        yield from (Declared(one.name, mixins=("ReadsAllPositions",)) for one in readers)
        return
    before = ("OffsetPositions",) if _counts_words(module, tokens, model) else ()
    behind = ("PoolsFirstTokens",) if _pools(module, tokens, model) else ()
    yield Declared(model.name, mixins=(*before, "PaddingFreeEncoder", *behind))
    yield from _heads(module, tokens, model)


def _fits(mixin: str, owner: Class) -> bool:
    forward = owner.own.get("forward")
    return forward is not None and _mixin(mixin).fits({"forward": forward})


@cache
def _mixin(name: str) -> Mixin:
    return next(one for one in mixins("flash") if one.name == name)


def _attends_to_itself(owner: Class) -> bool:
    """Whether its keys are of the states that its queries are of."""
    forward = owner.own["forward"]
    return "encoder_hidden_states" not in {arg.arg for arg in forward.args.args}


def _insist_on_kernels(owner: Class) -> None:
    """Raises _No where the attention is given what these kernels do not compute."""
    for one in interfaces(owner):
        if more := sorted(NOT_IN_FLASH & set(one.keywords)):
            raise _No(one.lookup, f"{owner.name} gives its attention `{more[0]}`, which these kernels do not compute")


def _model(module: Module) -> tuple[Class, bool]:
    """(the base model, whether it is an encoder)."""
    found = []
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        if forward is None or forward.args.kwarg is None or not owner.descends("PreTrainedModel"):
            continue
        given = {arg.arg for arg in (*forward.args.args, *forward.args.kwonlyargs)} - {"self"}
        makes = {node.id for method in owner.own.values() for node in walk(method.body, ast.Name)}
        if "labels" in given or not {"embeddings", "embed_tokens"} & owner.attributes.keys():
            continue
        if given == ENCODER and "create_bidirectional_mask" in makes:
            found.append((owner, True))
        elif given == DECODER and "create_causal_mask" in makes and "rotary_emb" in owner.attributes:
            found.append((owner, False))
        elif "input_ids" in given:
            more = sorted(given - ENCODER) or sorted(ENCODER - given)
            raise _No(forward, f"{owner.name} takes other arguments than BERT or Llama: `{more[0]}`")
    if len(found) != 1:
        raise _No(module.tree, "there is not one base model of BERT's or Llama's structure in this file")
    model, encodes = found[0]
    if not encodes and experts(module):
        raise _No(model.own["forward"], "the losses of its routers read the rows of a batch")
    return model, encodes


def _layers(module: Module, tokens: Tokens, model: Class) -> Iterator[Class]:
    """The classes through which states go, from the embeddings to the last layer."""
    forward = model.own["forward"]
    _insist_on_reads(model, forward)
    found = tokens.layers(model)
    for attribute in model.attributes:
        classes = [module.classes[name] for name in tokens.held(model, attribute) if name in module.classes]
        called_here = any(called(call) == f"self.{attribute}" for call in walk(forward.body, ast.Call))
        if called_here and attribute not in ("pooler", "rotary_emb"):
            found += [inner for one in classes for inner in (one, *tokens.layers(one))]
    layers = [one for one in found if _holds_attention(module, one, tokens)]
    if not layers:
        raise _No(forward, f"{model.name} goes through no list of layers that attend")
    return iter(dict.fromkeys(found))


def _holds_attention(module: Module, owner: Class, tokens: Tokens) -> bool:
    names = {name for attribute in owner.attributes for name in tokens.held(owner, attribute)}
    inner = [module.classes[name] for name in names if name in module.classes and name != owner.name]
    return bool(names & set(tokens.attending)) or any(_holds_attention(module, one, tokens) for one in inner)


# Calls and tests that may read what is in rows: the part has it in one row by then.
READERS = (
    "create_causal_mask",
    "create_sliding_window_causal_mask",
    "create_bidirectional_mask",
    "isinstance",
    "dict",
)


def _insist_on_reads(model: Class, forward: ast.FunctionDef) -> None:
    """Raises _No where the mask or the positions are read otherwise than to be handed on."""
    handed = {
        id(one)
        for call in walk(forward.body, ast.Call)
        if called(call).startswith("self.") or last(called(call)) in READERS or "layer" in called(call)
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
        for one in walk(given, ast.Name)
    }
    handed |= {id(one) for test in walk(forward.body, ast.Compare) for one in walk(test, ast.Name)}
    handed |= {
        id(one) for node in walk(forward.body, ast.Dict) for value in node.values for one in walk(value, ast.Name)
    }
    for name in walk(forward.body, ast.Name):
        if name.id in ("attention_mask", "position_ids", "token_type_ids") and isinstance(name.ctx, ast.Load):
            kept = any(node.value is name for node in walk(forward.body, ast.Assign))
            if id(name) not in handed and not kept and not _is_unsqueezed(forward, name):
                raise _No(name, f"{model.name} reads `{name.id}` here")


def _is_unsqueezed(forward: ast.FunctionDef, name: ast.Name) -> bool:
    return any(
        isinstance(node.func, ast.Attribute) and node.func.value is name and node.func.attr == "unsqueeze"
        for node in walk(forward.body, ast.Call)
    )


def _counts_words(module: Module, tokens: Tokens, model: Class) -> bool:
    """Whether positions are counted over words, as RoBERTa's; else they begin with 0.

    Raises _No where they come otherwise.
    """
    for name in tokens.held(model, "embeddings"):
        owner = module.classes.get(name)
        if owner is None:
            continue
        if all(owner.method(one) is not None for one in COUNTED) and "padding_idx" in owner.attributes:
            return True
        forward = owner.method("forward")
        slices = list(walk(forward.body, ast.Subscript)) if forward is not None else []
        if any(dotted(node.value) == "self.position_ids" for node in slices):
            return False
        raise _No(owner.node, f"{name} counts positions otherwise than BERT or RoBERTa")
    raise _No(model.node, f"the embeddings of {model.name} are not found")


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
    if not _fits("PoolsFirstTokens", model):
        raise _No(model.own["forward"], f"{model.name} calls its pooler otherwise than once")
    return True


def _heads(module: Module, tokens: Tokens, model: Class) -> Iterator[Declared]:
    """The heads that read places where padding may stand."""
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        holding = [attribute for attribute in owner.attributes if model.name in tokens.held(owner, attribute)]
        if forward is None or not holding:
            continue
        for node in walk(forward.body, ast.Attribute):
            if dotted(node.value) in {f"self.{one}" for one in holding}:
                raise _No(node, f"{owner.name} goes through the parts of {model.name} itself")
        if (mixin := reading(module, tokens, owner, forward, holding)) is None:
            continue
        init = owner.own.get("__init__")
        if init is None or [arg.arg for arg in init.args.args] != ["self", "config"]:
            raise _No(owner.node, f"{owner.name} reads whole rows, and is made of more than a configuration")
        yield Declared(owner.name, mixins=(mixin,))
