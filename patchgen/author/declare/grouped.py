"""The parts grouped and flex: whether transformers has them for a model; they write nothing.

Grouped products run the experts of nearly every mixture already.  Of the loops that are left no two
are alike: the gallery has them by hand.  Flex attention needs masks as functions of places, so
every attention has to call transformers' interface, as `docs/writing-a-variant.md` shows.
"""

from __future__ import annotations

import ast

from patchgen.author.anatomy.attention import Attentions, experts
from patchgen.author.anatomy.module import Module, Unfit
from patchgen.author.declare.variant import Contribution, Missing, refusing
from patchgen.gallery import SOURCES

GROUPED = """{name} runs its experts by transformers' interface, which has grouped GEMMs:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
WHY = {
    "loop": "{name}: its experts run one by one, and no two loops are alike",
    "dense": "{name}: every expert runs on every token, whichever were chosen",
}
BY_HAND = (
    "lay the weights out as `gate_up_proj` and `down_proj` and put @use_experts_implementation on "
    "the class: modular/dbrx/modular_dbrx_grouped.py does so, and converts checkpoints"
)
IN_GALLERY = "the gallery has it: patchgen new --from-gallery {name}"
FLAG = "_supports_flex_attn"
FLEX = (
    "{alias} has flex attention in transformers: "
    'AutoModel.from_pretrained(..., attn_implementation="flex_attention")'
)
CONNECT = (
    "connect attention to transformers' interface by hand, as "
    "modular/mpnet/modular_mpnet_sdpa_checkpoint.py does; `--with sdpa` calls SDPA alone"
)


@refusing
def grouped(module: Module) -> Contribution:
    """What the part says of `module`."""
    kinds = experts(module)
    if not kinds:
        raise Unfit(None, "no experts are run in this file")
    slow = {owner: kind for owner, kind in kinds.items() if kind in ("loop", "dense")}
    name = f"{module.alias}_grouped"
    in_gallery = (SOURCES / module.alias / f"modular_{name}.py").is_file()
    hint = IN_GALLERY.format(name=name) if in_gallery else BY_HAND
    missing = tuple(
        Missing(module.at(owner.node), WHY[kind].format(name=owner.name), True, hint)
        for owner, kind in slow.items()
    )
    if slow:
        return Contribution("grouped", missing=missing)
    owner, kind = next(iter(kinds.items()))
    says = (GROUPED if kind == "interface" else GATHERED).format(name=owner.name)
    return Contribution("grouped", redundant=says)


@refusing
def flex(module: Module) -> Contribution:
    """What the part says of `module`."""
    attentions = Attentions(module)
    if attentions.flag(FLAG):
        return Contribution("flex", redundant=FLEX.format(alias=module.alias))
    if attentions.chains:
        owner = attentions.chains[0].owner
        what = f"{owner.name} calls no attention function of transformers"
        raise Unfit(owner.node, what, CONNECT)
    if attentions.interfaces or attentions.missed:
        node: ast.AST = module.pretrained[0].node if module.pretrained else module.tree
        raise Unfit(node, f"transformers does not set {FLAG} here", CONNECT)
    raise Unfit(None, "no attention is computed in this file")
