"""The flex part: transformers' attention interface, where flex attention computes all scores.

Flex attention gets a mask as a function of places (`mask_mod`), which knows where packed documents
end, and adds a bias to each score as it is computed (`score_mod`).  transformers makes both, of the
masks of `create_causal_mask` and its kin and of `position_bias`.  So the part is what the part sdpa
writes by the interface, and is refused where that writes a call of SDPA of its own.
"""

from __future__ import annotations

from dataclasses import replace

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.sdpa import make_fatal, sdpa
from patchgen.author.declare.variant import Contribution, Missing

FLAG = "_supports_flex_attn"
SAYS = (
    'Under `attn_implementation="flex_attention"` the mask is a function of places, in which '
    "packed documents end where `position_ids` begin again, and {bias}no scores are kept. "
    'Attention is called by transformers\' interface, so "sdpa" (the default) and "eager" (the '
    "parent's own scores) work too."
)
BIAS = "a bias is added to each score as it is computed; "
REDUNDANT = (
    "{alias} has flex attention in transformers: "
    'AutoModel.from_pretrained(..., attn_implementation="flex_attention")'
)
NO_INTERFACE = (
    "its scores, its mask or its configuration do not fit transformers' attention interface; "
    "`--with sdpa` calls SDPA alone"
)


def flex(module: Module) -> Contribution:
    """What the part declares for `module`."""
    if Attentions(module).flag(FLAG):
        again = Missing(module.at(module.tree), "transformers has flex attention here", True)
        return Contribution(
            "flex", redundant=REDUNDANT.format(alias=module.alias), missing=(again,)
        )
    given = sdpa(module)
    members = [member for one in given.declared for member in one.members]
    if not given.redundant and any(f"{FLAG} = True" in member for member in members):
        says = SAYS.format(bias=BIAS if "position_bias" in "".join(members) else "")
        return replace(given, part="flex", says=says)
    return Contribution("flex", missing=_why(module, given))


def _why(module: Module, given: Contribution) -> tuple[Missing, ...]:
    """Why the interface is not written."""
    if given.missing and not given.declared:
        return make_fatal(given.missing)
    if given.redundant:
        place = module.pretrained[0].node if module.pretrained else module.tree
        return (Missing(module.at(place), f"transformers does not set {FLAG} here", True),)
    owner = module.classes[given.declared[0].name]
    return (Missing(module.at(owner.node), f"{owner.name}: {NO_INTERFACE}", True),)
