"""Split an MRO into the classes that are merged into a declared class, and the bases that stay.

In: a class of a modular file and its MRO.  Out: the chain, a prefix of the MRO, and the bases that
follow it; or the reason why no class can be merged with it, so that it stays a subclass.

    MRO of Child: Child, llama.LlamaMLP, nn.Module
    chain: Child, llama.LlamaMLP        rest: nn.Module
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.lineage import Base, Lineages, c3
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import Location, PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class Split:
    """An MRO in two parts: `chain` is merged, itself first; `rest` are the bases that stay.

    `obstacle` says why `chain` cannot be merged after all.
    """

    chain: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    obstacle: str = ""


def check_class_statement(bindings: Bindings, base: Base) -> Problem | None:
    """The problem of a base that no class statement defines: a class cannot be merged with it.

    Raises PatchgenError PG109 for a module, PG103 for what does not exist.
    """
    if not base.symbol.name:
        hint = f"write {base.expression}.<class>"
        raise PatchgenError(
            "PG109", base.at, f"the base {base.expression} is a module, not a class", hint
        )
    # A factory or an assignment can make a class too.
    block = bindings.require(base.symbol, base.at)
    if block.kind == "class":
        return None
    if block.kind == "guard":
        hint = (
            "which class it is, is known at run time only: "
            "give the class that derives from it another name"
        )
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
    """Split the MRO behind the last flattened base from another file.

    Merging is exact for a prefix of the MRO only: Python searches the bases that stay after
    everything that was merged.
    """
    mro = lineages.mro(symbol, at)
    # The chain always holds the class itself.
    chain = mro[: _merged_length(mro, lineages, bindings, layers, at)]
    # Unmerged, the class keeps the bases that its author wrote.
    written = tuple(base.symbol for base in bases)
    if len(chain) == 1:
        return Split(chain, written)
    # A base from elsewhere, such as nn.Module, cannot stand between merged classes.
    for kept in chain:
        if not bindings.flatten_scope.flattens(kept.module):
            what = (
                f"{kept} stays a base and stands before {chain[-1]} in the method resolution order"
            )
            return Split(chain, written, what)
    behind = mro[len(chain) :]
    rest = _find_written_bases(chain, behind, lineages, at)
    # Python computes the MRO of the flat class from the bases that are written there.
    orders = [lineages.mro(base, at) for base in rest]
    if c3([*orders, rest]) != behind:
        what = (
            f"no order of the bases that stay gives {symbol.name} "
            "the method resolution order that it has in Python"
        )
        return Split(chain, written, what)
    return Split(chain, rest)


def _find_written_bases(
    chain: tuple[Symbol, ...], behind: tuple[Symbol, ...], lineages: Lineages, at: Location
) -> tuple[Symbol, ...]:
    """The classes of `behind` that the merged class has to name as its bases."""
    direct: set[Symbol] = set()
    for member in chain:
        bases = lineages.direct_bases(member, at) or ()
        direct.update(base.symbol for base in bases)
    candidates = tuple(symbol for symbol in behind if symbol in direct)
    # A base of another base is inherited through that one, and is not written.
    inherited: set[Symbol] = set()
    for base in candidates:
        inherited.update(lineages.mro(base, at)[1:])
    return tuple(base for base in candidates if base not in inherited)


def _merged_length(
    mro: tuple[Symbol, ...],
    lineages: Lineages,
    bindings: Bindings,
    layers: tuple[str, ...],
    at: Location,
) -> int:
    """How many classes of `mro` are merged.

    They reach to the last base that a merged modular class has from another file.
    """
    # Merging a modular class can bring in further bases, so the length may grow.
    length, looked_at = 1, 0
    while looked_at < length:
        member = mro[looked_at]
        looked_at += 1
        if member.module not in layers:
            continue
        for base in lineages.direct_bases(member, at) or ():
            is_of_other_file = base.symbol.module != member.module
            if is_of_other_file and bindings.flatten_scope.flattens(base.symbol.module):
                place = mro.index(base.symbol)
                length = max(length, place + 1)
    return length
