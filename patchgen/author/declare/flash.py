"""The flash part: no padding, in an encoder built as BERT or a causal model built as Llama.

A layer or a head is refused, or keeps its padding, where a call of it may look at other tokens.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import Layers, experts
from patchgen.author.anatomy.code import called, constant, keywords, last, method_of, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import code, edit, mixin
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing
from patchgen.facts.modules import CACHES
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

ENCODER = (
    "No padding is computed: real tokens are taken out of the batch once, behind the embeddings, "
    "and put back after the last layer. Attention is transformers' own, under every "
    "`attn_implementation`. What comes out at real tokens is the parent's own; at padding it is "
    "zeros. See `patchgen.parts.flash`."
)
DECODER = (
    "No padding is computed where attention takes the lengths of texts: under FlashAttention and "
    'under "varlen", which `import patchgen.runtime` registers. Real tokens are taken out of the '
    "batch once, and put back after the last layer. Texts of one row stay apart, in attention and "
    "in the loss, where `position_ids` restart, or by the collator's `cu_seq_lens_q`. What comes "
    "out at real tokens is the parent's own; at padding it is zeros. See `patchgen.parts.flash`."
)
MORE = CACHES | {"kwargs"}
LLAMA = {"self", "input_ids", "attention_mask", "position_ids", "inputs_embeds", "use_cache"}
COUNTED = ("create_position_ids_from_input_ids", "create_position_ids_from_inputs_embeds")
DECODERS = ("PaddingFreeDecoder", "PaddingFreeWindowDecoder", "PaddingFreeLayerTypesDecoder")
GENERIC_READER = "GenericForQuestionAnswering"  # transformers' head for any model, in another file
SINKS = "s_aux"  # of gpt-oss: FlashAttention 2 and "varlen" refuse them
HINT = (
    "write the forward of the base model by `patchgen.parts.flash` where you know what looks at "
    "which token"
)
# Functions and modules that compute with several tokens, unless it is along the last axis.
MIXING = frozenset(
    "argmax argmin cumsum flip gather logsumexp max mean median min norm roll softmax sort std sum "
    "topk unfold var AvgPool1d Conv1d Conv2d GRU LSTM MaxPool1d".split()
)


@refusing
def flash(module: Module) -> Contribution:
    """What the part declares for `module`."""
    if not _attending(module):
        what = "no attention calls transformers' interface in the form of BERT's or Llama's"
        raise Unfit(None, what)
    bases = [owner for owner in module.classes.values() if owner.descends("PreTrainedModel")]
    encoders = [owner for owner in bases if _fits("PaddingFreeEncoder", owner)]
    decoders = [owner for owner in bases if "rotary_emb" in owner.attributes and _mixin_of(owner)]
    decoders = [o for o in decoders if {*parameters(o.own["forward"])} - MORE == LLAMA]
    if len(encoders) + len(decoders) != 1:
        what = "there is not one base model of BERT's or Llama's structure in this file"
        raise Unfit(module.tree, what, HINT)
    try:
        if encoders:
            return Contribution("flash", ENCODER, tuple(_encoder(module, encoders[0])))
        return Contribution("flash", DECODER, tuple(_decoder(module, decoders[0])))
    except Unfit as unfit:
        raise Unfit(unfit.node, unfit.why, HINT if unfit.node else "") from None


def _fits(name: str, owner: Class) -> bool:
    return mixin("flash", name).fits(owner.own)


def _mixin_of(decoder: Class) -> str:
    """The mixin for the way in which it makes its masks, or ""."""
    return next((name for name in DECODERS if _fits(name, decoder)), "")


def _encoder(module: Module, model: Class) -> Iterator[Declared]:
    _insist_on_layers(module, model)
    for owner in _attending(module):
        forward = owner.own["forward"]
        if "encoder_hidden_states" in parameters(forward):
            continue
        if not _fits("AttendsInRows", owner):
            raise Unfit(forward, f"{owner.name} calls attention otherwise than once")
        yield Declared(owner.name, mixins=("AttendsInRows",))
    for pooler in module.held(model, "pooler"):
        node = _mixes(pooler.own.values())
        if node is not None:
            raise Unfit(node, f"{pooler.name} pools more than the first token")
    mixins = ["PaddingFreeEncoder"]
    for embeddings in module.held(model, "embeddings"):
        if "padding_idx" in embeddings.attributes and all(map(embeddings.method, COUNTED)):
            mixins = ["CountsFromPadding", "PaddingFreeEncoder"]
    if "pooler" in model.attributes:
        if not _fits("PoolsEachText", model):
            raise Unfit(model.own["forward"], f"{model.name} calls its pooler otherwise than once")
        mixins.insert(0, "PoolsEachText")
    yield Declared(model.name, mixins=tuple(mixins))
    yield from _heads(module, model)


def _decoder(module: Module, model: Class) -> Iterator[Declared]:
    forward = model.own["forward"]
    if experts(module):
        raise Unfit(forward, "the losses of its routers read the rows of a batch")
    if not any(owner.says("_supports_flash_attn") for owner in module.pretrained):
        raise Unfit(None, "it takes no FlashAttention, which is told the lengths of texts")
    if "hidden_states = inputs_embeds" not in map(ast.unparse, walk(forward.body, ast.Assign)):
        raise Unfit(forward, f"the states of {model.name} do not begin as `inputs_embeds`")
    for owner in module.classes.values():
        if model in module.held(owner):
            if "create_causal_mask" in map(called, walk(owner.forward(), ast.Call)):
                what = f"the model around {model.name} makes the mask of its layers"
                raise Unfit(forward, what)
    for owner in _attending(module):
        for call in walk(owner.forward(), ast.Call):
            if SINKS in keywords(call):
                what = f"{owner.name} has attention sinks, which no kernel for lengths computes"
                raise Unfit(call, what)
    _insist_on_layers(module, model)
    yield from _layers_that_hand_on(module)
    yield Declared(model.name, mixins=(_mixin_of(model),))
    for owner in module.classes.values():
        if _fits("LabelsWithinTexts", owner):
            yield Declared(owner.name, mixins=("LabelsWithinTexts",))
        if GENERIC_READER in owner.bases:
            yield Declared(owner.name, mixins=("KeepsPadding",))


def _attending(module: Module) -> list[Class]:
    """The classes that call the attention interface and pass their keyword arguments to it."""
    attending = []
    for owner in module.classes.values():
        for call in walk(owner.forward(), ast.Call):
            if called(call) == "attention_interface" and None in keywords(call):
                attending.append(owner)
    return attending


def _insist_on_layers(module: Module, model: Class) -> None:
    """Refuse layers that may look at other tokens, except by attention."""
    held: list[Class] = []
    for attribute in model.attributes:
        if attribute != "pooler" and "emb" not in attribute:
            held += module.held(model, attribute)
    layers = Layers(module).inside(held)
    attending = _attending(module)
    if set(layers).isdisjoint(attending):
        what = f"{model.name} goes through no list of layers that attend"
        raise Unfit(model.own["forward"], what)
    for owner in layers:
        node = _mixes(owner.own.values())
        if node is not None and owner not in attending:
            what = f"`{ast.unparse(node)[:60]}` of {owner.name} may look at other tokens"
            raise Unfit(node, what)


def _layers_that_hand_on(module: Module) -> Iterator[Declared]:
    """Layers that keep the lengths of texts from their attention, with edits that hand them on."""
    attending = set(_attending(module))
    for owner in module.classes.values():
        forward = owner.method("forward")
        for call in walk(owner.forward(), ast.Call):
            is_attention = not attending.isdisjoint(module.held(owner, last(dotted(call.func))))
            if not is_attention or None in keywords(call):
                continue
            if forward is None or forward.args.kwarg is None:
                raise Unfit(call, f"{owner.name} does not tell its attention the lengths of texts")
            lengths = ast.keyword(None, ast.Name(forward.args.kwarg.arg))
            told = ast.Call(call.func, call.args, [*call.keywords, lengths])
            old, new = (code(module, forward, each) for each in (call, told))
            hand_on = edit("hand_on_lengths", forward, [old], [new])
            yield Declared(owner.name, members=(hand_on,))


def _mixes(methods: Iterable[ast.FunctionDef]) -> ast.expr | None:
    """What computes with several tokens, or reads another than the first of a row."""
    for node in walk(methods, ast.expr):
        match node:
            case ast.Call() if method_of(node) in MIXING:
                axes = [*node.args, keywords(node).get("dim")]
                if not any(constant(value) == -1 for value in axes):
                    return node
            case ast.Subscript(slice=ast.Name(id=index)) if "mask" in index:
                return node
            case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), token, *_])):
                is_all = isinstance(token, ast.Slice) or dotted(token) == "slice_indices"
                if constant(token) != 0 and not is_all:
                    return node
    return None


def _heads(module: Module, model: Class) -> Iterator[Declared]:
    """The heads that read places where padding may stand."""
    layers = Layers(module)
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        bases = {f"self.{name}" for name in owner.attributes if model.name in owner.held(name)}
        if forward is None or not bases:
            continue
        for node in walk(forward.body, ast.Attribute):
            if dotted(node.value) in bases:
                raise Unfit(node, f"{owner.name} goes through the parts of {model.name} itself")
        inside = layers.inside(part for part in module.held(owner) if part is not model)
        methods = [forward, *(method for part in inside for method in part.own.values())]
        # A loss over positions is a softmax over those of padding too.
        over_positions = "start_positions" in parameters(forward)
        if not over_positions and _mixes(methods) is None:
            continue
        init = owner.own.get("__init__")
        if init is None or parameters(init) != ("self", "config"):
            what = f"{owner.name} reads whole rows, and is made of more than a configuration"
            raise Unfit(owner.node, what)
        yield Declared(owner.name, mixins=("KeepsPadding",))


def check() -> PartCheck:
    from patchgen.verifying.parts.attention import FLASH

    return FLASH


PART = Part(
    "flash",
    check,
    "no padding is computed, and packed texts are kept apart",
    flash,
    counted=("padded rows", "padded rows under varlen"),
    spares=("KeepsPadding",),
    lends=("lengths.", "decoder.LabelsWithin", "decoder.NoCache"),
)
