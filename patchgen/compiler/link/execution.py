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

from collections.abc import Iterable, Iterator

from patchgen.compiler.link.flatblock import BlockId, Builder
from patchgen.compiler.plan.bindings import Bindings
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex

_NOWHERE = Location("")


def trace_execution(modules: Iterable[str], builder: Builder) -> dict[BlockId, int]:
    """The place in the order of execution of every statement of the modular file and of `modules`."""
    run = _Run(frozenset(modules), builder)
    own = [layer.source.module for layer in builder.naming.plan.layers]
    # What is reached by other ways than an import statement of these files was there before.
    reached = {module for start in with_packages(own[0]) for module in run.reached_from(start)}
    for module in sorted(run.modules - reached - set(own)):
        run.module(module)
    for name in own:
        for module in with_packages(name):
            if module == name or is_followed(module, builder.naming.bindings):
                run.module(module)
    return run.places


class _Run:
    def __init__(self, modules: frozenset[str], builder: Builder) -> None:
        self.modules, self._builder = modules, builder
        self._begun: set[str] = set()
        self.places: dict[BlockId, int] = {}

    def reached_from(self, module: str) -> set[str]:
        """The modules that running `module` runs."""
        seen: set[str] = set()
        queue = [module]
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                if name not in self.modules and not is_followed(
                    name, self._builder.naming.bindings
                ):
                    continue
                index = self._builder.index(name)
                queue += [
                    target for block in index.blocks for target in self._targets(index, block)
                ]
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
            self.places[BlockId(name, block.first)] = len(self.places)

    def _targets(self, index: ModuleIndex, block: Block) -> list[str]:
        """The modules that an import statement runs, of those that something is carried from or reached through."""
        bindings = self._builder.naming.bindings
        found = executed_modules(index, block, bindings)
        return [
            module for module in found if module in self.modules or is_followed(module, bindings)
        ]


def is_followed(module: str, bindings: Bindings) -> bool:
    """Whether `module` is one of the project, whose imports and statements count wherever they are reached from."""
    return bindings.flatten_scope.is_own(module) and bindings.env.path(module) is not None


def executed_modules(index: ModuleIndex, block: Block, bindings: Bindings) -> tuple[str, ...]:
    """The modules that the import statements in `block` run, in order: packages before what is in them."""
    found: dict[str, None] = {}
    for item in () if block.is_for_types else block.imports:
        try:
            symbol = bindings.imported_symbol(index, item)
            meant = bindings.canonical(symbol, _NOWHERE)
        except PatchgenError:
            continue  # reported where the name is carried
        named = item.module if item.binds_package else symbol.module
        submodule = [] if item.binds_package else [str(symbol)]
        found.update(
            dict.fromkeys([*with_packages(named), *submodule, *with_packages(meant.module)])
        )
    return tuple(found)


def with_packages(module: str) -> Iterator[str]:
    """`a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = module.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
