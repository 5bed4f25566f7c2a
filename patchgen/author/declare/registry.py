"""All parts: what `new` offers, what `verify` checks, and what the table of coverage counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchgen.author.declare import (
    bidirectional,
    by_hand,
    checkpoint,
    fast,
    flash,
    kernels,
    linears,
    logprobs,
    loss,
    moe,
    norm,
    packed,
    replay,
    sdpa,
    split_loss,
)
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Writer

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

OFFERED = (
    sdpa.PART,
    checkpoint.PART,
    loss.PART,
    split_loss.PART,
    norm.PART,
    moe.PART,
    flash.PART,
    kernels.PART,
    bidirectional.PART,
    replay.PART,
    packed.PART,
    logprobs.PART,
    linears.PART,
    fast.PART,
)
PARTS: dict[str, Part] = {part.name: part for part in (*OFFERED, *by_hand.PARTS)}


def writers() -> dict[str, Writer]:
    """The writer of each part that has one."""
    return {part.name: part.writer for part in PARTS.values() if part.writer is not None}


def find_part_checks(names: Iterable[str]) -> tuple[PartCheck, ...]:
    """The check of each of the parts `names`.  Raises LookupError for what is no part."""
    checks = []
    for name in names:
        check = PARTS[name].check if name in PARTS else None
        if check is None:
            raise LookupError(f"{name} is no part: patchgen/author/declare/registry.py has all")
        checks.append(check())
    return tuple(checks)
