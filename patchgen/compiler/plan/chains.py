"""Which classes can be merged into a declared class, and which stay its bases.

In: a class of a modular file and its MRO.  Out: the chain, a beginning of the MRO, and the bases that follow it; or
why no class can be merged with it, so that it stays a subclass.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.lineage import Base, Lineages, c3
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location, PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class Split:
    """An MRO in two: `chain` can be merged, the class itself first, and `rest` are the bases that stay then.

    `obstacle` says why `chain` cannot be merged after all.
    """

    chain: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    obstacle: str = ""


def check_class_statement(bindings: Bindings, base: Base) -> Problem | None:
    """What is wrong with a base that a class cannot be merged with, because no class statement makes it.

    Raises PatchgenError PG109 for a module, PG103 for what does not exist.
    """
    if not base.symbol.name:
        hint = f"write {base.expression}.<class>"
        raise PatchgenError(
            "PG109", base.at, f"the base {base.expression} is a module, not a class", hint
        )
    block = bindings.require(base.symbol, base.at)
    if block.kind == "class":
        return None
    if block.kind == "guard":
        hint = "which class it is, is known at run time only: give the class that derives from it another name"
        return Problem(base.at, "PG111", f"{base.symbol} is defined under a condition", hint)
    hint = "derive from the class itself, or give the class that derives from it another name"
    return Problem(base.at, "PG109", f"{base.symbol} is not a class statement", hint)


def split(
    symbol: Symbol,
    bases: tuple[Base, ...],
    lineages: Lineages,
    bindings: Bindings,
    layers: tuple[str, ...],
    at: Location,
) -> Split:
    """The shortest beginning of the MRO that holds every flattened base from another file, and the bases that stay.

    Merging is exact for a beginning of the MRO only: whatever stays is searched after all that was merged.
    """
    mro = lineages.mro(symbol, at)
    chain = mro[: _merged_length(mro, lineages, bindings, layers, at)]
    written = tuple(base.symbol for base in bases)
    if len(chain) == 1:
        return Split(chain, written)
    for kept in chain:
        if not bindings.flatten_scope.flattens(kept.module):
            what = (
                f"{kept} stays a base and stands before {chain[-1]} in the method resolution order"
            )
            return Split(chain, written, what)
    direct = {
        base.symbol for member in chain for base in lineages.direct_bases(member, at) or ()
    } - set(chain)
    rest = tuple(s for s in mro[len(chain) :] if s in direct)
    lines = {s: lineages.mro(s, at) for s in rest}
    rest = tuple(s for s in rest if not any(s in lines[other][1:] for other in rest))
    if c3([*(lines[s] for s in rest), rest]) != mro[len(chain) :]:
        what = f"no order of the bases that stay gives {symbol.name} the method resolution order that it has in Python"
        return Split(chain, written, what)
    return Split(chain, rest)


def _merged_length(
    mro: tuple[Symbol, ...],
    lineages: Lineages,
    bindings: Bindings,
    layers: tuple[str, ...],
    at: Location,
) -> int:
    """How many classes of `mro` are merged: up to the last base from another file of any merged modular class."""
    length, looked_at = 1, 0
    while looked_at < length:
        member = mro[looked_at]
        looked_at += 1
        if member.module not in layers:
            continue
        for base in lineages.direct_bases(member, at) or ():
            if base.symbol.module != member.module and bindings.flatten_scope.flattens(
                base.symbol.module
            ):
                length = max(length, mro.index(base.symbol) + 1)
    return length
