"""Attentions that the sdpa part does not change, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.declare.variant import Missing


def find_own_calls(found: Attentions) -> Iterator[Missing]:
    for chain in found.chains:
        what = f"{chain.owner.name} is eager attention that stands beside a call of SDPA"
        yield Missing(found.module.at(chain.suite[chain.first]), what, True)


def find_left_over(found: Attentions) -> Iterator[Missing]:
    """Attentions that would stay eager in a method with another one that is replaced."""
    written = {id(chain.method) for chain in found.chains}
    for one in found.missed:
        if one.attention and id(one.method) in written:
            yield Missing(
                found.module.at(one.node), f"{one.owner.name} would stay eager: {one.why}", True
            )


def find_missed(found: Attentions) -> tuple[Missing, ...]:
    at = found.module.at
    return tuple(
        dict.fromkeys(
            Missing(at(one.node), f"{one.owner.name} stays eager: {one.why}")
            for one in found.missed
            if one.attention
        )
    )


def find_other_softmaxes(found: Attentions) -> tuple[Missing, ...]:
    at = found.module.at
    return tuple(
        Missing(at(one.node), f"{one.owner.name}: {one.why}")
        for one in found.missed
        if "ttention" in one.owner.name
    )


def make_fatal(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(Missing(one.at, one.what, True) for one in missing)
