"""Leave out a base that another base derives from in the flat file.

    class TinyPreTrainedModel(LlamaPreTrainedModel): ...
    class TinyModel(TinyPreTrainedModel, LlamaModel): ...

    class TinyModel(TinyPreTrainedModel): ...       with what LlamaModel has

There, what is made of LlamaModel derives from TinyPreTrainedModel, and Python would refuse a base
that stands before a class that derives from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.declare import Declaration, ModulePlan, find_index
from patchgen.compiler.plan.lineage import Base, Lineages, split
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import parse_class


def drop_implied_bases(plan: ModulePlan, bindings: Bindings) -> ModulePlan:
    """`plan` without such bases; raises PG107 where both classes have a member of one name."""
    finder = _Finder(plan, bindings)
    declarations = tuple(map(finder.drop, plan.declarations))
    return replace(plan, declarations=declarations)


class _Finder:
    def __init__(self, plan: ModulePlan, bindings: Bindings) -> None:
        self._plan = plan
        self._lineages = Lineages(bindings)
        self._naming = Naming(plan, bindings)

    def drop(self, declaration: Declaration) -> Declaration:
        """`declaration` without the bases that others derive from in the flat file."""
        bases = declaration.bases
        for base in declaration.bases:
            # Only a class of a modular file takes the place of another one.
            if self._plan.declaration(base.symbol) is not None:
                others = [other for other in bases if other is not base]
                if any(self._implies(other, base, declaration) for other in others):
                    bases = tuple(others)
        if bases == declaration.bases:
            return declaration
        symbol = declaration.symbol
        at = declaration.at
        lineages = Lineages(self._lineages.bindings, {symbol: bases})
        chain, rest, obstacle = split(symbol, bases, lineages, self._plan.modules, at)
        if obstacle:
            raise PatchgenError("PG107", at, obstacle, "change the order of the bases")
        return replace(declaration, bases=bases, chain=chain, rest=rest, parents=chain[1:])

    def _implies(self, other: Base, base: Base, declaration: Declaration) -> bool:
        """Whether the flat class of `other` derives from `base`, which has no say before it."""
        ancestors = self._lineages.mro(other.symbol, other.at)
        # Those in front of the one whose place `base` takes.
        nearer = list(takewhile(lambda each: self._place(each) != base.symbol, ancestors))
        if len(nearer) in (0, len(ancestors)):
            return False
        bases = declaration.bases
        if bases.index(base) < bases.index(other):
            own = self._lineages.mro(base.symbol, base.at)
            before = self._members(each for each in own if each not in ancestors)
            shared = sorted(before & self._members(nearer))
            if shared:
                what = f"{base.expression} stands before {other.expression}, which derives from it "
                what += f"in the flat file, and both have {', '.join(shared)}"
                hint = f"leave the base {base.expression} out, and define {shared[0]} in "
                hint += declaration.symbol.name
                raise PatchgenError("PG107", declaration.at, what, hint)
        return True

    def _place(self, symbol: Symbol) -> Symbol | None:
        """The class that takes the place of `symbol` in the flat file."""
        return self._naming.resolve(symbol, symbol.module).key

    def _members(self, symbols: Iterable[Symbol]) -> set[str]:
        members: set[str] = set()
        for symbol in symbols:
            bindings = self._lineages.bindings
            # The classes of torch are behind those of both bases.
            if bindings.env.path(symbol.module) is not None:
                index = find_index(symbol.module, self._plan.layers, bindings)
                block = index.definition(symbol.name)
                if block is not None:
                    members.update(bound_names(parse_class(block.text).body))
        return members
