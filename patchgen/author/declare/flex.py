"""The flex part: whether transformers has flex attention for a model; it writes nothing.

Flex attention needs masks as functions of places, so every attention of a model has to call
transformers' interface; `docs/writing-a-variant.md` shows how that is written by hand.
"""

from __future__ import annotations

import ast

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.variant import Contribution, Missing

FLAG = "_supports_flex_attn"
REDUNDANT = (
    "{alias} has flex attention in transformers: "
    'AutoModel.from_pretrained(..., attn_implementation="flex_attention")'
)
HINT = (
    "connect attention to transformers' interface by hand, as "
    "modular/mpnet/modular_mpnet_sdpa_checkpoint.py does; `--with sdpa` calls SDPA alone"
)


def flex(module: Module) -> Contribution:
    """What the part says of `module`."""
    attentions = Attentions(module)
    if attentions.flag(FLAG):
        again = Missing(module.at(module.tree), "transformers has flex attention here", True)
        redundant = REDUNDANT.format(alias=module.alias)
        return Contribution("flex", redundant=redundant, missing=(again,))
    place: ast.AST = module.tree
    what, hint = "no attention is computed in this file", ""
    if attentions.chains:
        place, hint = attentions.chains[0].owner.node, HINT
        what = f"{attentions.chains[0].owner.name} calls no attention function of transformers"
    elif attentions.interfaces or attentions.missed:
        place = module.pretrained[0].node if module.pretrained else module.tree
        what, hint = f"transformers does not set {FLAG} here", HINT
    return Contribution("flex", missing=(Missing(module.at(place), what, True, hint),))
