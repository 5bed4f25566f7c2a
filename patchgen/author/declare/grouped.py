"""The grouped part: whether transformers' grouped products run the experts already.

They do in nearly every mixture.  Of the loops that are left no two are alike, so none is rewritten
here: the gallery has them by hand.
"""

from __future__ import annotations

from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.variant import Contribution, Missing
from patchgen.gallery import SOURCES

BY_INTERFACE = """{name} runs its experts by transformers' interface, which has grouped GEMMs:
    AutoModel.from_pretrained(..., experts_implementation='grouped_mm')"""
GATHERED = "{name} reads the rows of the experts that it chose, and runs no others"
WHY = {
    "interface": "{name} has its forward chosen by the interface",
    "gathered": "{name} has no product for each expert",
    "loop": "{name}: its experts run one by one, and no two loops are alike",
    "dense": "{name}: every expert runs on every token, whichever were chosen",
}
BY_HAND = (
    "lay the weights out as `gate_up_proj` and `down_proj` and put @use_experts_implementation on "
    "the class: modular/dbrx/modular_dbrx_grouped.py does so, and converts checkpoints"
)
IN_GALLERY = "the gallery has it: patchgen new --from-gallery {name}"


def grouped(module: Module) -> Contribution:
    """What the part says of `module`; it writes nothing."""
    found = experts(module)
    slow = [one for one in found if one.kind not in ("interface", "gathered")]
    name = f"{module.alias}_grouped"
    in_gallery = (SOURCES / module.alias / f"modular_{name}.py").is_file()
    hint = IN_GALLERY.format(name=name) if in_gallery else BY_HAND
    missing = tuple(
        Missing(
            module.at(one.owner.node),
            WHY[one.kind].format(name=one.owner.name),
            True,
            hint if slow else "",
        )
        for one in slow or found
    )
    if not found:
        nothing = Missing(module.at(module.tree), "no experts are run in this file", True)
        return Contribution("grouped", missing=(nothing,))
    if slow:
        return Contribution("grouped", missing=missing)
    template = BY_INTERFACE if found[0].kind == "interface" else GATHERED
    says = template.format(name=found[0].owner.name)
    return Contribution("grouped", redundant=says, missing=missing)
