"""The bidirectional part: masks and attentions of a causal model that look both ways.

A model is refused if something in it looks back by itself: a recurrent layer, a convolution, a
triangle that it makes, a bias that grows with the place of a key.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, constant, keywords, names, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import code, edit
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing
from patchgen.facts.modules import CAUSAL
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "Every token sees every token of its text: for embeddings. Texts in one row are kept apart by "
    "their `position_ids`; a cache is refused. See `patchgen.parts.bidirectional`."
)
MASKS = {
    "create_causal_mask": "bidirectional_mask",
    "create_sliding_window_causal_mask": "bidirectional_sliding_window_mask",
}
# Keywords of a mask that is made of more than the text and its padding.
OTHER_MASKS = "or_mask_function and_mask_function block_sequence_ids allow_is_causal_skip".split()
# Names of what looks back, whatever the masks say.
LOOKS_BACK = {
    r"create_recurrent_\w+|causal_conv1d.*|.*delta_rule|.*(conv|ssm|recurrent)_states?": (
        "a layer here reads the text from left to right, by `{name}`"
    ),
    r"tril|triu": "a mask that looks back is made by `{name}`",
    r".*alibi.*": "`{name}` is a bias that grows with the place of a key, on either side",
    r"encoder_outputs": "it is the decoder of an encoder, which looks both ways",
}


@refusing
def bidirectional(module: Module) -> Contribution:
    """What the part declares for `module`."""
    makers = [(owner, method) for owner, method in module.methods if CAUSAL & names(method.body)]
    for function in module.functions.values():
        if CAUSAL & names(function):
            raise Unfit(function, "a causal mask is made in a function of the module")
    if not makers:
        raise Unfit(None, "no causal mask is made here by a function of transformers")
    if all("is_decoder" in ast.unparse(method) for _, method in makers):
        redundant = f"{module.alias} looks both ways already, unless `config.is_decoder` is set"
        declared = tuple(Declared(owner.name) for owner, _ in makers)
        return Contribution("bidirectional", declared=declared, redundant=redundant)
    _refuse_what_looks_back(module)
    declared = tuple(_attentions(Attentions(module)))
    masks = tuple(_with_masks(module, *maker) for maker in makers)
    return Contribution("bidirectional", SAYS, (*declared, *masks))


def _refuse_what_looks_back(module: Module) -> None:
    for pattern, why in LOOKS_BACK.items():
        for node in walk(module.tree, ast.AST):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    if re.fullmatch(pattern, name):
                        raise Unfit(node, why.format(name=name))


def _attentions(attentions: Attentions) -> Iterator[Declared]:
    """The classes that tell transformers' attention functions that they are causal."""
    calling = {interface.owner for interface in attentions.interfaces}
    for owner in attentions.module.classes.values():
        init = walk(owner.own.get("__init__", ()), ast.Assign)
        set_here = [node for node in init if dotted(node.targets[0]) == "self.is_causal"]
        if len(set_here) > 1:
            raise Unfit(set_here[1], f"{owner.name} says twice whether it is causal")
        if set_here and constant(set_here[0].value) is not False:
            yield Declared(owner.name, mixins=("LooksBothWays",))
        elif owner in calling and not owner.is_causal:
            yield Declared(owner.name, members=("is_causal = False",))
    for interface in attentions.interfaces:
        for call in interface.calls:
            value = keywords(call).get("is_causal")
            text = ast.unparse(value) if value is not None else "False"
            if text not in ("self.is_causal", "False"):
                raise Unfit(call, f"attention is called with is_causal={text}")


def _with_masks(module: Module, owner: Class, method: ast.FunctionDef) -> Declared:
    """The class whose `method` makes masks, with those of the part."""
    for call in walk(method.body, ast.Call):
        for keyword in keywords(call):
            if called(call) in CAUSAL and keyword in OTHER_MASKS:
                raise Unfit(call, f"a mask is made of more than the text: `{keyword}`")
    asked = [name for name in walk(method.body, ast.Name) if name.id in CAUSAL]
    counts = Counter(name.id for name in asked)
    edits = []
    for maker in sorted(counts):
        if maker not in MASKS:
            place = next(name for name in asked if name.id == maker)
            raise Unfit(place, f"`{maker}` cuts the text into pieces, which look back")
        name = f"look_both_ways_in_{method.name}"
        if "window" in maker:
            name += "_of_windows"
        old = code(module, method, maker)
        edits.append(edit(name, method, [old], [MASKS[maker]], count=counts[maker]))
    return Declared(owner.name, members=tuple(edits))


def check() -> PartCheck:
    from patchgen.verifying.parts.bidirectional import BIDIRECTIONAL

    return BIDIRECTIONAL


PART = Part(
    "bidirectional", check, "each token sees those that follow: for embeddings", bidirectional
)
