"""Compute Python's MRO of a class without importing anything.

In: the symbol of a class.  Out: its C3 linearisation as symbols.  A class whose file is not read
(torch, the standard library) has no known ancestors but itself.  That is enough: it is never
merged.

    class Child(Left, Right): ...       both derive from Top: Child, Left, Right, Top
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Problem, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """One base of a class: its expression as written, where, and what it means."""

    expression: str
    at: Location
    symbol: Symbol


def bases_of(bindings: Bindings, module: ModuleIndex, name: str) -> tuple[Base, ...]:
    """The bases of class `name` of `module`, in order.

    Raises PatchgenError PG105 for a base that is not a dotted name (or such a name with a
    subscript), PG104 for one that nothing binds.
    """
    block = module.definition(name)
    assert block is not None
    bases = []
    for written, (line, column) in zip(block.bases, block.base_positions, strict=True):
        at = module.source.at(block.first + line - 1, column)
        dotted = written
        # `Generic[T]` has the bases of Generic; `*BASES` is no expression by itself.
        if written.endswith("]") and not written.startswith("*"):
            node = ast.parse(written, mode="eval").body
            if isinstance(node, ast.Subscript):
                dotted = ast.unparse(node.value)
        # A call or a condition would have to run.
        if not all(part.isidentifier() for part in dotted.split(".")):
            hint = "name the class, or assign it to a name at module level in its own file"
            raise PatchgenError("PG105", at, f"the base {written} is not a name", hint)
        symbol = bindings.dotted(module, dotted, at)
        if symbol is None and not hasattr(builtins, dotted):
            hint = did_you_mean(dotted, module.names) or "import it"
            raise PatchgenError("PG104", at, f"the base {dotted} is bound by nothing", hint)
        bases.append(Base(dotted, at, symbol or Symbol("builtins", dotted)))
    return tuple(bases)


@dataclass(frozen=True)
class Lineages:
    """The MROs of one run's classes; `bindings` decides which files may be read."""

    bindings: Bindings
    _bases: dict[Symbol, tuple[Base, ...] | None] = field(default_factory=dict, repr=False)
    _linearized: dict[Symbol, tuple[Symbol, ...]] = field(default_factory=dict, repr=False)

    def mro(
        self, symbol: Symbol, at: Location, below: tuple[Symbol, ...] = ()
    ) -> tuple[Symbol, ...]:
        """The linearisation of `symbol`, itself first, `object` left out.

        `below` is the path of classes that led here.  Raises PatchgenError PG106 for a class that
        inherits from itself, PG107 where Python would refuse the order.
        """
        if symbol in self._linearized:
            return self._linearized[symbol]
        if symbol in below:
            raise _make_cycle_error(symbol, below, at)
        # Of a class from outside nothing is needed; of those of torch, that they are modules.
        bases = self.direct_bases(symbol, at) or ()
        if re.fullmatch(r"torch\.nn\.(?!Module$|Parameter$|Buffer$)[A-Z]\w+", str(symbol)):
            bases = (Base("nn.Module", at, Symbol("torch.nn", "Module")),)
        # C3 merges the orders of the bases and the order in which they are written.
        lines = [self.mro(base.symbol, base.at, (*below, symbol)) for base in bases]
        merged = c3([*lines, tuple(base.symbol for base in bases)])
        if merged is None:
            names = ", ".join(base.expression for base in bases)
            what = f"the bases {names} have no consistent method resolution order"
            hint = "change the order of the bases; Python refuses this one"
            raise PatchgenError("PG107", at, what, hint)
        self._linearized[symbol] = (symbol, *merged)
        return self._linearized[symbol]

    def direct_bases(self, symbol: Symbol, at: Location) -> tuple[Base, ...] | None:
        """The bases of a class whose file may be read, else None."""
        if symbol not in self._bases:
            module = symbol.module
            env = self.bindings.env
            scope = self.bindings.flatten_scope
            self._bases[symbol] = None
            if scope.knows_bases_of(module) and env.path(module) is not None:
                index = env.index(module, at)
                block = index.definition(symbol.name)
                # An alias or a factory: `check_class_statement` reports it where it matters.
                if block is not None and block.kind == "class":
                    bases = bases_of(self.bindings, index, symbol.name)
                    plain = [base for base in bases if str(base.symbol) != "builtins.object"]
                    self._bases[symbol] = tuple(plain)
        return self._bases[symbol]


def _make_cycle_error(symbol: Symbol, below: tuple[Symbol, ...], at: Location) -> PatchgenError:
    cycle = " -> ".join(map(str, (*below[below.index(symbol) :], symbol)))
    what = f"a class inherits from itself: {cycle}"
    hint = "take one base out of the cycle"
    # `from toy import Base` and `class Base(Base)`: a name means one thing in a file.
    if below[-1] == symbol:
        name = symbol.name
        what = f"the base {name} has the name of the class, and a name means one thing in a file"
        hint = f"import the parent under another name: `import {name} as {name}Parent`"
    return PatchgenError("PG106", at, what, hint)


def c3(sequences: Sequence[Sequence[T]]) -> tuple[T, ...] | None:
    """Python's merge of linearisations, or None when there is none."""
    merged: list[T] = []
    rows = list(filter(None, sequences))
    while rows:
        for row in rows:
            head = row[0]
            # A class comes only after all that stand before it in any row.
            if not any(head in other[1:] for other in rows):
                break
        else:
            return None
        merged.append(head)
        rows = [row[1:] if row[0] == head else row for row in rows]
        rows = list(filter(None, rows))
    return tuple(merged)


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
        hint = "which class it is, is known at run time only: "
        hint += "give the class that derives from it another name"
        return Problem(base.at, "PG111", f"{base.symbol} is defined under a condition", hint)
    hint = "derive from the class itself, or give the class that derives from it another name"
    return Problem(base.at, "PG109", f"{base.symbol} is not a class statement", hint)


def split(
    symbol: Symbol,
    bases: tuple[Base, ...],
    lineages: Lineages,
    layers: Collection[str],
    at: Location,
) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...], str]:
    """The part of an MRO that is merged, itself first; the bases that stay; why it cannot be.

    Merging is exact for a prefix of the MRO only: Python searches the bases that stay after
    everything that was merged.
    """
    mro = lineages.mro(symbol, at)
    flattens = lineages.bindings.flatten_scope.flattens
    # The chain reaches to the last base that a merged modular class has from another file.
    length = 1
    for place, member in enumerate(mro):
        # Merging a modular class can bring in further bases, so the length may grow.
        if place < length and member.module in layers:
            for base in lineages.direct_bases(member, at) or ():
                if base.symbol.module != member.module and flattens(base.symbol.module):
                    length = max(length, mro.index(base.symbol) + 1)
    chain = mro[:length]
    behind = mro[length:]
    if length == 1:
        return chain, tuple(base.symbol for base in bases), ""
    # A base from elsewhere, such as nn.Module, cannot stand between merged classes.
    for stays in chain:
        if not flattens(stays.module):
            before = f"stands before {chain[-1]} in the method resolution order"
            return chain, (), f"{stays} stays a base and {before}"
    # The merged class names the bases of its classes that stay, but for bases of other such bases.
    statements = []
    for member in chain:
        bases_of_member = lineages.direct_bases(member, at) or ()
        statements.append({base.symbol for base in bases_of_member})
    stated = set[Symbol]().union(*statements)
    named = [ancestor for ancestor in behind if ancestor in stated]

    def is_said(ancestor: Symbol) -> bool:
        heirs = {base for base in named if ancestor in lineages.mro(base, at)[1:]}
        # One that a class names beside its heir is there to be read: `GenerationMixin`.
        return not heirs or any(ancestor in bases and bases & heirs for bases in statements)

    rest = tuple(filter(is_said, named))
    # Python computes the MRO of the flat class from the bases that are written there.
    if c3([*(lineages.mro(base, at) for base in rest), rest]) == behind:
        return chain, rest, ""
    what = f"no order of the bases that stay gives {symbol.name} the method resolution order"
    return chain, rest, f"{what} that it has in Python"
