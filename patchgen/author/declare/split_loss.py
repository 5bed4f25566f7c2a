"""The split_loss part: the loss part, also where tensor parallelism splits the head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.author.anatomy.module import Module, Unfit
from patchgen.author.declare.loss import BIASED, LABELLED, loss
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "With labels the loss is taken without logits, also of a head whose words tensor parallelism "
    "has split. See `patchgen.parts.loss` and `patchgen.parts.split_loss`."
)
MIXIN = "SplitLoss"


@refusing
def split_loss(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_loss = loss(module)
    heads = [_split(declared) for declared in of_loss.declared]
    if not any(MIXIN in declared.mixins for declared in heads):
        raise Unfit(None, "no head here takes its loss in chunks, from a weight without a bias")
    return Contribution("split_loss", SAYS, tuple(heads), of_loss.missing)


def _split(declared: Declared) -> Declared:
    """The declaration with the mixin before that of a head in chunks without a bias."""
    (mixin, *_) = declared.mixins
    if BIASED in mixin or LABELLED in mixin:
        return declared
    return replace(declared, mixins=(MIXIN, *declared.mixins))


def check() -> PartCheck:
    from patchgen.verifying.parts.layers import LOSS

    return replace(LOSS, part="split_loss")


PART = Part(
    "split_loss",
    check,
    "the part loss, also for a head that tensor parallelism splits",
    split_loss,
    counted=("checkpointing", "full rows"),
    of_heads=True,
    includes=("loss",),
)
