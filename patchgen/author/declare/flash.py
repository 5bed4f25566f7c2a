"""The flash part: no padding, in an encoder built as BERT or a causal model built as Llama.

A layer or a head is refused, or keeps its padding, where a call of it may look at other tokens.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, constant, dotted, method_of, walk
from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import Layers
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.fitting import mixin
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
# Functions and modules that compute with several tokens, unless it is along the last axis.
MIXING = frozenset(
    "argmax argmin cumsum flip gather logsumexp max mean median min norm roll softmax sort std sum "
    "topk unfold var AvgPool1d Conv1d Conv2d GRU LSTM MaxPool1d".split()
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
    return Contribution("flash", ENCODER if encodes else DECODER, declared)


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


def _fits(name: str, owner: Class) -> bool:
    return mixin("flash", name).fits(owner.own)


def _encoder(module: Module, model: Class) -> Iterator[Declared]:
    _insist_on_layers(module, model)
    for owner in _attending(module):
        if "encoder_hidden_states" in {arg.arg for arg in owner.own["forward"].args.args}:
            continue
        if not _fits("AttendsInRows", owner):
            raise _No(owner.own["forward"], f"{owner.name} calls attention otherwise than once")
        yield Declared(owner.name, mixins=("AttendsInRows",))
    poolers, embeddings = (_classes(module, model, (name,)) for name in ("pooler", "embeddings"))
    for pooler in poolers:
        if (node := _mixes(pooler.own.values())) is not None:
            raise _No(node, f"{pooler.name} pools more than the first token")
    if "pooler" in model.attributes and not _fits("PoolsEachText", model):
        raise _No(model.own["forward"], f"{model.name} calls its pooler otherwise than once")
    counts = any(
        "padding_idx" in one.attributes and all(map(one.method, COUNTED)) for one in embeddings
    )
    mixins = ["PoolsEachText"] * ("pooler" in model.attributes) + ["CountsFromPadding"] * counts
    yield Declared(model.name, mixins=(*mixins, "PaddingFreeEncoder"))
    yield from _heads(module, model)


def _decoder(module: Module, model: Class) -> Iterator[Declared]:
    forward = model.own["forward"]
    if experts(module):
        raise _No(forward, "the losses of its routers read the rows of a batch")
    flags = [ast.unparse(node) for one in module.pretrained for node in one.node.body]
    if "_supports_flash_attn = True" not in flags:
        raise _No(None, "it takes no FlashAttention, which is told the lengths of texts")
    if "hidden_states = inputs_embeds" not in map(ast.unparse, walk(forward.body, ast.Assign)):
        raise _No(forward, f"the states of {model.name} do not begin as `inputs_embeds`")
    _insist_on_layers(module, model)
    yield Declared(model.name, mixins=("PaddingFreeDecoder",))
    for one in module.classes.values():
        if _fits("LabelsWithinTexts", one):
            yield Declared(one.name, mixins=("LabelsWithinTexts",))
        if GENERIC_READER in one.bases:
            yield Declared(one.name, mixins=("KeepsPadding",))


def _attending(module: Module) -> list[Class]:
    """The classes that call the attention interface and pass their keyword arguments to it."""
    return [
        one
        for one in module.classes.values()
        if "forward" in one.own
        and any(
            called(call) == "attention_interface" and None in {word.arg for word in call.keywords}
            for call in walk(one.own["forward"].body, ast.Call)
        )
    ]


def _classes(module: Module, owner: Class, attributes: Iterable[str]) -> list[Class]:
    """The classes of the file that the attributes of `owner` hold."""
    names = [name for attribute in attributes for name in held(owner, attribute)]
    return [module.classes[name] for name in names if name in module.classes]


def _insist_on_layers(module: Module, model: Class) -> None:
    """Refuse layers that may look at other tokens, except by attention."""
    through = [
        name
        for name in model.attributes
        if name not in ("pooler", "rotary_emb") and "embed" not in name
    ]
    layers = Layers(module, Attentions(module)).inside(_classes(module, model, through))
    attending = _attending(module)
    if not set(layers) & set(attending):
        raise _No(model.own["forward"], f"{model.name} goes through no list of layers that attend")
    for owner in layers:
        if owner not in attending and (node := _mixes(owner.own.values())) is not None:
            raise _No(node, f"`{ast.unparse(node)[:60]}` of {owner.name} may look at other tokens")


def _mixes(methods: Iterable[ast.FunctionDef]) -> ast.expr | None:
    """What computes with several tokens, or reads another than the first of a row."""
    for node in walk(methods, ast.expr):
        match node:
            case ast.Call() if method_of(node) in MIXING:
                given = [*node.args, *(word.value for word in node.keywords if word.arg == "dim")]
                if not any(constant(value) == -1 for value in given):
                    return node
            case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), index, *_])):
                is_all = isinstance(index, ast.Slice) or dotted(index) == "slice_indices"
                if constant(index) != 0 and not is_all:
                    return node
    return None


def _heads(module: Module, model: Class) -> Iterator[Declared]:
    """The heads that read places where padding may stand."""
    layers = Layers(module, Attentions(module))
    for owner in module.classes.values():
        forward = owner.own.get("forward")
        bases = {f"self.{name}" for name in owner.attributes if model.name in held(owner, name)}
        if forward is None or not bases:
            continue
        for node in walk(forward.body, ast.Attribute):
            if dotted(node.value) in bases:
                raise _No(node, f"{owner.name} goes through the parts of {model.name} itself")
        others = [name for name in owner.attributes if f"self.{name}" not in bases]
        inside = layers.inside(_classes(module, owner, others))
        methods = [forward, *(method for one in inside for method in one.own.values())]
        # A loss over positions is a softmax over those of padding too.
        over_positions = "start_positions" in {arg.arg for arg in walk(forward.args, ast.arg)}
        if not over_positions and _mixes(methods) is None:
            continue
        init = owner.own.get("__init__")
        if init is None or [arg.arg for arg in init.args.args] != ["self", "config"]:
            raise _No(
                owner.node,
                f"{owner.name} reads whole rows, and is made of more than a configuration",
            )
        yield Declared(owner.name, mixins=("KeepsPadding",))
