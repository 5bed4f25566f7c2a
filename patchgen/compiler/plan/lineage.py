"""Compute Python's MRO of a class without importing anything.

In: the symbol of a class.  Out: its C3 linearisation as symbols.  A class whose file is not read
(torch, the standard library) has no known ancestors but itself.  That is enough: it is never
merged.

    class Child(Left, Right): ...       both derive from Top: Child, Left, Right, Top
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen.syntax.trees import Position, parse_once, position_of, statements_within


@dataclass(frozen=True)
class Base:
    """One base of a class: its expression as written, where, and what it means."""

    expression: str
    at: Location
    symbol: Symbol


def bases_of(bindings: Bindings, module: ModuleIndex, name: str) -> tuple[Base, ...]:
    """The bases of class `name` of `module`, in order.

    Raises PatchgenError PG105 for a base that is not a dotted name (or such a name with a
    subscript), PG104 for one that nothing binds, PG123 where something else takes the name of the
    class.
    """
    block = module.definition(name)
    assert block is not None
    written = _read_written_bases(block, name)
    if written is None:
        what = f"{name} is bound here again, after the class of that name"
        raise PatchgenError(
            "PG123", module.source.at(block.first), what, "give one of them another name"
        )
    found = []
    for expression, (line, column) in written:
        at = module.source.at(block.first + line - 1, column)
        dotted = _read_dotted(expression)
        # A call or a condition would have to run.
        if dotted is None:
            hint = "name the class, or assign it to a name at module level in its own file"
            raise PatchgenError("PG105", at, f"the base {expression} is not a name", hint)
        symbol = bindings.dotted(module, dotted, at) or _builtin(module, dotted, at)
        found.append(Base(dotted, at, symbol))
    return tuple(found)


def _read_dotted(expression: str) -> str | None:
    """The dotted name of a base; None where it is none."""
    dotted = expression
    # Nearly all bases are plain names, and `*BASES` is no expression by itself.
    if expression.endswith("]") and not expression.startswith("*"):
        base = ast.parse(expression, mode="eval").body
        # `Generic[T]` has the bases of Generic.
        if isinstance(base, ast.Subscript):
            dotted = ast.unparse(base.value)
    is_name = all(part.isidentifier() for part in dotted.split("."))
    return dotted if is_name else None


def _read_written_bases(block: Block, name: str) -> list[tuple[str, Position]] | None:
    """The bases of class `name` as they stand in `block`; None where there is no such class."""
    if block.kind == "class" and block.name == name:
        return list(zip(block.bases, block.base_positions, strict=True))
    # A line of statements joined by `;` holds more than the class, and so does an `if`.
    for node in statements_within(parse_once(block.text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [(ast.unparse(base), position_of(base)) for base in node.bases]
    return None


def _builtin(module: ModuleIndex, dotted: str, at: Location) -> Symbol:
    """The builtin class of a name that nothing in the module binds."""
    if not hasattr(builtins, dotted):
        what = f"the base {dotted} is bound by nothing"
        raise PatchgenError("PG104", at, what, did_you_mean(dotted, module.names) or "import it")
    return Symbol("builtins", dotted)


@dataclass(frozen=True)
class Lineages:
    """The MROs of one run's classes; `bindings` decides which files may be read."""

    bindings: Bindings
    _bases: dict[Symbol, tuple[Base, ...] | None] = field(
        default_factory=dict, repr=False, compare=False
    )
    _linearized: dict[Symbol, tuple[Symbol, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def mro(
        self, symbol: Symbol, at: Location, below: tuple[Symbol, ...] = ()
    ) -> tuple[Symbol, ...]:
        """The linearisation of `symbol`, itself first, `object` left out.

        Raises PatchgenError PG106 for a class that inherits from itself, PG107 where Python would
        refuse the order.
        """
        if symbol not in self._linearized:
            self._linearized[symbol] = self._linearize(symbol, at, below)
        return self._linearized[symbol]

    def _linearize(
        self, symbol: Symbol, at: Location, below: tuple[Symbol, ...]
    ) -> tuple[Symbol, ...]:
        """As `mro`, computed anew."""
        # `below` is the path of classes that led here.
        if symbol in below:
            raise _make_cycle_error(symbol, below, at)
        bases = self.direct_bases(symbol, at)
        # Nothing is known of its bases, and nothing is needed.
        if bases is None:
            return (symbol,)
        # C3 merges the orders of the bases and the order in which they are written.
        lines = [self.mro(base.symbol, base.at, (*below, symbol)) for base in bases]
        merged = c3([*lines, tuple(base.symbol for base in bases)])
        if merged is None:
            names = ", ".join(base.expression for base in bases)
            what = f"the bases {names} have no consistent method resolution order"
            hint = "change the order of the bases; Python refuses this one"
            raise PatchgenError("PG107", at, what, hint)
        return (symbol, *merged)

    def direct_bases(self, symbol: Symbol, at: Location) -> tuple[Base, ...] | None:
        """The bases of a class whose file may be read, else None."""
        if symbol not in self._bases:
            self._bases[symbol] = self._read_bases(symbol, at)
        return self._bases[symbol]

    def _read_bases(self, symbol: Symbol, at: Location) -> tuple[Base, ...] | None:
        """As `direct_bases`, computed anew."""
        env = self.bindings.env
        if not self.bindings.flatten_scope.knows_bases_of(symbol.module):
            return None
        if env.path(symbol.module) is None:
            return None
        index = env.index(symbol.module, at)
        block = index.definition(symbol.name)
        # The MRO of a class from outside is asked for too, as far as its files can be read.
        # An alias or a factory: `check_class_statement` reports it where it matters.
        if block is None or block.kind != "class":
            return None
        bases = bases_of(self.bindings, index, symbol.name)
        return tuple(base for base in bases if base.symbol != Symbol("builtins", "object"))


def _make_cycle_error(symbol: Symbol, below: tuple[Symbol, ...], at: Location) -> PatchgenError:
    """The error about `symbol`, which is among the classes `below` that derive from it."""
    cycle = " -> ".join(str(each) for each in (*below[below.index(symbol) :], symbol))
    what = f"a class inherits from itself: {cycle}"
    hint = "take one base out of the cycle"
    # `from toy import Base` and `class Base(Base)`: a name means one thing in a file.
    if below[-1] == symbol:
        name = symbol.name
        what = f"the base {name} has the name of the class, and a name means one thing in a file"
        hint = f"import the parent under another name: `import {name} as {name}Parent`"
    return PatchgenError("PG106", at, what, hint)


def c3(sequences: Sequence[Sequence[Symbol]]) -> tuple[Symbol, ...] | None:
    """Python's merge of linearisations, or None when there is none."""
    merged: list[Symbol] = []
    rows = _drop_empty(sequences)
    while rows:
        head = _find_head(rows)
        if head is None:
            return None
        merged.append(head)
        rows = _drop_empty([[symbol for symbol in row if symbol != head] for row in rows])
    return tuple(merged)


def _drop_empty(rows: Sequence[Sequence[Symbol]]) -> list[Sequence[Symbol]]:
    return [row for row in rows if row]


def _find_head(rows: Sequence[Sequence[Symbol]]) -> Symbol | None:
    """The first class that stands behind no other class of any row."""
    for row in rows:
        if not any(row[0] in other[1:] for other in rows):
            return row[0]
    return None


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
