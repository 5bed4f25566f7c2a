"""Refuse two modular files that are combined and define different things under one name.

    modular_a.py:  def _scale(x): return x * 10
    modular_b.py:  def _scale(x): return x + 1
    modular_ab.py: class LlamaMLP(A, B)        # PG129: one `_scale` would be used for both

A file that extends another may define a public function or constant again, for that file's code
too, and a class may derive from the one of its name.  Elsewhere two definitions of one name are an
accident.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from patchgen.compiler.link.equivalence import mean_the_same
from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.lineage import bases_of
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import PatchgenError, Problem


def find_conflicts(builder: Builder) -> Iterator[Problem]:
    """A problem for each name of which one file's definition would be used for another file."""
    layers = builder.naming.plan.layers
    for nearer, further in itertools.combinations(layers, 2):
        for name in _find_shared_names(nearer, further):
            if not _may_replace(name, nearer, further, builder):
                yield _make_problem(name, nearer, further, builder)


def _find_shared_names(nearer: ModuleIndex, further: ModuleIndex) -> Iterator[str]:
    """The names that both files define."""
    for name in nearer.names:
        # Each output has an `__all__` of its own.
        if name == "__all__":
            continue
        if nearer.definition(name) and further.definition(name):
            yield name


def _may_replace(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the definition in `nearer` may stand for the one in `further`."""
    plan = builder.naming.plan
    first, second = Symbol(nearer.source.module, name), Symbol(further.source.module, name)
    declaration = plan.declaration(first)
    if declaration is not None and second in _list_ancestors(declaration):
        return True
    if _is_settled(name, further, builder):
        return True
    if _are_copies(name, nearer, further, builder):
        return True
    # Two classes of one name are two classes, and a private name is not meant to be replaced.
    is_class = declaration is not None or plan.declaration(second) is not None
    if is_class or name.startswith("_"):
        return False
    return further.source.module in _find_extended(nearer, builder)


def _is_settled(name: str, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the converted file declares a class `name` that derives from the one in `further`."""
    own = builder.naming.plan.modular.source.module
    declaration = builder.naming.plan.declaration(Symbol(own, name))
    if declaration is None:
        return False
    return Symbol(further.source.module, name) in _list_ancestors(declaration)


def _list_ancestors(declaration: Declaration) -> tuple[Symbol, ...]:
    """The classes that are merged into a class, and those that it stays a subclass of."""
    return (*declaration.chain[1:], *declaration.parents)


def _are_copies(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether both definitions have one text and read the same things."""
    # The same text may read different things in two files.
    block, copy = nearer.definition(name), further.definition(name)
    if block is None or copy is None or block.text != copy.text:
        return False
    return mean_the_same(block.uses - {name}, nearer, further, builder.naming.bindings)


def _find_extended(index: ModuleIndex, builder: Builder) -> set[str]:
    """The modular files that the classes of `index` derive from, directly or not."""
    found: set[str] = set()
    waiting = [index]
    while waiting:
        layer = waiting.pop()
        for name in layer.classes:
            for base in bases_of(builder.naming.bindings, layer, name):
                module = base.symbol.module
                if module not in found and module in builder.layers:
                    found.add(module)
                    waiting.append(builder.index(module))
    return found


def _make_problem(
    name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder
) -> Problem:
    """The problem of a name that two modular files define differently."""
    block, other = nearer.definition(name), further.definition(name)
    assert block is not None and other is not None
    at = nearer.source.at(block.first)
    there = further.source.at(other.first)
    what = f"{name} is defined here and, differently, at {there}, and both files are combined"
    hint = "give one of them another name"
    # A class of both can be declared; a function of both cannot.
    if block.kind == other.kind == "class":
        own = builder.naming.plan.modular.source.path
        hint += f", or derive a class {name} from both in {own}"
    return PatchgenError("PG129", at, what, hint).problem
