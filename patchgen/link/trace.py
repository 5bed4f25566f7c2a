"""In which order Python would run the statements that a flat file is made of.

In: the modular file and the modules that something is carried from.  Out: a number for each statement.  An import runs
the module that it names, once, where it stands:

    modular_neo.py                        1  import os                       modular_neo
    import os                             2  os.environ["FAST"] = "1"        modular_neo
    os.environ["FAST"] = "1"              3  import kernels                  modeling_toy
    from .modeling_toy import Base        4  class Base: ...                 modeling_toy
    class C(Base): ...                    5  class C(Base): ...              modular_neo
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.errors import Location, PatchgenError
from patchgen.link.flatblock import Builder, Unit
from patchgen.source.blocks import Block, ModuleIndex

_NOWHERE = Location("")


def trace(modules: Iterable[str], builder: Builder) -> dict[Unit, int]:
    """The place in the order of execution of every statement of the modular file and of `modules`."""
    run = _Run(frozenset(modules), builder)
    own = [layer.source.module for layer in builder.naming.plan.layers]
    # What is reached by other ways than an import statement of these files was there before.
    reached = run.reached_from(own[0])
    for module in sorted(run.modules - reached - set(own)):
        run.module(module)
    run.module(own[0])
    for module in own[1:]:
        run.module(module)
    return run.places


class _Run:
    def __init__(self, modules: frozenset[str], builder: Builder) -> None:
        self.modules, self._builder = modules, builder
        self._begun: set[str] = set()
        self.places: dict[Unit, int] = {}

    def reached_from(self, module: str) -> set[str]:
        """The modules that running `module` runs."""
        seen: set[str] = set()
        queue = [module]
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                index = self._builder.index(name)
                queue += [target for block in index.blocks for target in self._targets(index, block)]
        return seen

    def module(self, name: str) -> None:
        """Run `name`, if it was not begun."""
        if name in self._begun:
            return
        self._begun.add(name)
        index = self._builder.index(name)
        for block in index.blocks:
            for target in self._targets(index, block):
                self.module(target)
            self.places[Unit(name, block.first)] = len(self.places)

    def _targets(self, index: ModuleIndex, block: Block) -> list[str]:
        """The modules that an import statement runs, of those that something is carried from."""
        bindings = self._builder.naming.bindings
        found: dict[str, None] = {}
        for item in () if block.is_for_types else block.imports:
            try:
                symbol = bindings.imported_symbol(index, item)
                meant = bindings.canonical(symbol, _NOWHERE)
            except PatchgenError:
                continue  # reported where the name is carried
            named = [item.module] if not item.level else []
            found.update(dict.fromkeys([symbol.module, str(symbol), meant.module, *named]))
        return [module for module in found if module in self.modules]
