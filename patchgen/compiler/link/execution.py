"""Number statements in the order in which Python would run them.

In: the modular file and the modules that something is carried from.  Out: a number for each of
their statements.  An import runs the module that it names, once, where it stands:

    modular_neo.py                        1  import os                       modular_neo
    import os                             2  os.environ["FAST"] = "1"        modular_neo
    os.environ["FAST"] = "1"              3  import kernels                  modeling_toy
    from .modeling_toy import Base        4  class Base: ...                 modeling_toy
    class C(Base): ...                    5  class C(Base): ...              modular_neo
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from patchgen.compiler.link.flatblock import BlockId, Builder
from patchgen.compiler.plan.bindings import Bindings
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError

_NOWHERE = Location("")


def trace_execution(modules: Iterable[str], builder: Builder) -> dict[BlockId, int]:
    """The place of every statement of the modular file and of `modules` in the execution."""
    bindings = builder.naming.bindings
    run = _Run(frozenset(modules), builder)
    own = [layer.source.module for layer in builder.naming.plan.layers]
    reached: set[str] = set()
    for start in with_packages(own[0]):
        reached |= run.find_reached(start)
    # A module that no import of these files reaches was imported before.
    for module in sorted(run.modules - reached - set(own)):
        run.execute(module)
    # The modular file comes first, as Python would import it.
    for name in own:
        for module in with_packages(name):
            if module == name or is_followed(module, bindings):
                run.execute(module)
    return run.places


class _Run:
    """Executes modules on paper."""

    def __init__(self, modules: frozenset[str], builder: Builder) -> None:
        self.modules, self._builder = modules, builder
        self._started: set[str] = set()
        self.places: dict[BlockId, int] = {}

    def find_reached(self, module: str) -> set[str]:
        """The modules that an execution of `module` executes."""
        seen: set[str] = set()
        queue = [module]
        while queue:
            name = queue.pop()
            if name in seen:
                continue
            seen.add(name)
            if self._counts(name):
                index = self._builder.index(name)
                for block in index.blocks:
                    queue += self._find_imported(index, block)
        return seen

    def execute(self, name: str) -> None:
        """Number the statements of `name`, and of what they import; a second time does nothing."""
        if name in self._started:
            return
        # As in Python, a module that imports itself in a circle is not executed twice.
        self._started.add(name)
        index = self._builder.index(name)
        for block in index.blocks:
            for target in self._find_imported(index, block):
                self.execute(target)
            self.places[BlockId(name, block.first)] = len(self.places)

    def _find_imported(self, index: ModuleIndex, block: Block) -> list[str]:
        """The modules that an import statement executes, of those that count."""
        found = find_executed(index, block, self._builder)
        return [module for module in found if self._counts(module)]

    def _counts(self, module: str) -> bool:
        """Whether something is carried from `module`, or it is one of the project."""
        return module in self.modules or is_followed(module, self._builder.naming.bindings)


def is_followed(module: str, bindings: Bindings) -> bool:
    """Whether `module` is one of the project.

    Its imports and its statements count wherever it is imported from.
    """
    return bindings.flatten_scope.is_own(module) and bindings.env.path(module) is not None


def find_executed(index: ModuleIndex, block: Block, builder: Builder) -> tuple[str, ...]:
    """As `executed_modules`, found once for each block."""
    # Nearly all blocks import nothing.
    if not block.imports:
        return ()
    key = BlockId(index.source.module, block.first)
    if key not in builder.executed:
        builder.executed[key] = executed_modules(index, block, builder.naming.bindings)
    return builder.executed[key]


def executed_modules(index: ModuleIndex, block: Block, bindings: Bindings) -> tuple[str, ...]:
    """The modules that the imports in `block` execute, in order: packages before what they hold."""
    if block.is_for_types:
        return ()
    found: dict[str, None] = {}
    for item in block.imports:
        try:
            symbol = bindings.imported_symbol(index, item)
            defined = bindings.canonical(symbol, _NOWHERE)
        except PatchgenError:
            continue  # reported where the name is carried
        if item.binds_package:
            found |= dict.fromkeys(with_packages(item.module))
        else:
            # `from . import parts` executes a submodule of that name, if there is one.
            found |= dict.fromkeys([*with_packages(symbol.module), str(symbol)])
        found |= dict.fromkeys(with_packages(defined.module))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def with_packages(module: str) -> tuple[str, ...]:
    """`a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = module.split(".")
    return tuple(".".join(parts[:end]) for end in range(1, len(parts) + 1))
