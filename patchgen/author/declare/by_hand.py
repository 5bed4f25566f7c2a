"""Parts that no writer knows: variants have them by hand, and `verify` checks them as well."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from patchgen.author.declare.part import Part

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck


def check(name: str) -> PartCheck:
    from patchgen.verifying.parts import attention, layers, mixture

    of_layers = (layers.GELU, layers.TILES, mixture.GROUPED, mixture.STACKED)
    return next(each for each in (attention.INTERFACE, *of_layers) if each.part == name)


# How an added line begins that has the part, or "" where that takes the part's own code.
MARKS = {
    "attention_interface": r"_supports_sdpa = True|.*\bALL_ATTENTION_FUNCTIONS\.get_interface\(",
    "grouped": r"@use_experts_implementation|.*\b_grouped_linear\(",
    "stacked": "",
    "gelu": "",
    "tiles": "",
}
PARTS = tuple(Part(name, partial(check, name), mark=mark) for name, mark in MARKS.items())
