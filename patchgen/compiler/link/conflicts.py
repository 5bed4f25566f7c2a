"""Two modular files that are combined and define different things under one name.

    modular_a.py:  def _scale(x): return x * 10
    modular_b.py:  def _scale(x): return x + 1
    modular_ab.py: class LlamaMLP(A, B)        # PG129: one `_scale` would be used for both

A file that extends another may define a public function or constant anew, for that file's code too,
and a class may derive from the one of its name.  Any other likeness of names is chance.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchgen.compiler.link.equivalence import is_same_definition
from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.lineage import bases_of
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError, Problem
from patchgen.syntax.blocks import ModuleIndex


def find_conflicts(builder: Builder) -> Iterator[Problem]:
    """A problem for each name of which one definition would take the place of a stranger's."""
    layers = builder.naming.plan.layers
    for number, nearer in enumerate(layers):
        for further in layers[number + 1 :]:
            for name in _defined_in_both(nearer, further):
                if not _is_meant(name, nearer, further, builder):
                    yield _problem(name, nearer, further, builder)


def _defined_in_both(nearer: ModuleIndex, further: ModuleIndex) -> Iterator[str]:
    for name in nearer.names:
        both = nearer.definition(name), further.definition(name)
        if all(both) and name != "__all__":
            yield name


def _is_meant(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the definition in `nearer` may stand for the one in `further`."""
    first, second = (Symbol(index.source.module, name) for index in (nearer, further))
    declaration = builder.naming.plan.declaration(first)
    if declaration is not None and second in _ancestors(declaration):
        return True
    if _is_settled(name, further, builder) or _are_copies(first, second, builder):
        return True
    is_class = declaration is not None or builder.naming.plan.declaration(second) is not None
    is_public = not name.startswith("_")
    return is_public and not is_class and further.source.module in _extended(nearer, builder)


def _is_settled(name: str, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the file that is converted says itself what the class `name` of both is."""
    own = builder.naming.plan.modular.source.module
    declaration = builder.naming.plan.declaration(Symbol(own, name))
    return declaration is not None and Symbol(further.source.module, name) in _ancestors(
        declaration
    )


def _ancestors(declaration: Declaration) -> tuple[Symbol, ...]:
    return (*declaration.chain[1:], *declaration.parents)


def _are_copies(first: Symbol, second: Symbol, builder: Builder) -> bool:
    bindings = builder.naming.bindings
    one, other = (builder.index(symbol.module) for symbol in (first, second))
    block, copy = one.definition(first.name), other.definition(first.name)
    if block is None or copy is None or block.text != copy.text:
        return False
    used = block.uses - {first.name}
    meanings = [(bindings.meaning(one, name), bindings.meaning(other, name)) for name in used]
    return all(x == y or (x and y and is_same_definition(x, y, bindings)) for x, y in meanings)


def _extended(index: ModuleIndex, builder: Builder) -> set[str]:
    """The modular files that the classes of `index` derive from, directly or not."""
    found: set[str] = set()
    waiting = [index]
    while waiting:
        layer = waiting.pop()
        for name in layer.classes:
            for base in bases_of(builder.naming.bindings, layer, name):
                module = base.symbol.module
                if module not in found and _is_layer(module, builder):
                    found.add(module)
                    waiting.append(builder.index(module))
    return found


def _is_layer(module: str, builder: Builder) -> bool:
    return module in {layer.source.module for layer in builder.naming.plan.layers}


def _problem(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> Problem:
    block, other = nearer.definition(name), further.definition(name)
    assert block is not None and other is not None
    at = nearer.source.at(block.first)
    there = further.source.at(other.first)
    what = f"{name} is defined here and, differently, at {there}, and both files are combined"
    hint = "give one of them another name"
    if block.kind == other.kind == "class":
        own = builder.naming.plan.modular.source.path
        hint += f", or derive a class {name} from both in {own}"
    return PatchgenError("PG129", at, what, hint).problem
