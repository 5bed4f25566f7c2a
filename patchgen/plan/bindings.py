"""What a name in a module stands for: a definition, an import, or a chain of re-exports, followed to its end.

In: a name, and the module that says it.  Out: the `Symbol` that it means, or None for a builtin and for a name that
nothing binds.  Only modules that exist as files below the roots are looked into, and only those that may hold a class
to flatten; what comes from elsewhere (torch, the standard library) is named as the import statement names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.errors import Location, PatchgenError, did_you_mean
from patchgen.plan.model import Symbol
from patchgen.plan.territory import Territory
from patchgen.source.blocks import Block, Import, ModuleIndex
from patchgen.source.locate import Environment


@dataclass(frozen=True)
class Bindings:
    """Answers for one modular file, whose `territory` says which files are looked into."""

    env: Environment
    territory: Territory

    def meaning(self, module: ModuleIndex, name: str) -> Symbol | None:
        """What the global `name` means in `module`, re-exports followed."""
        home = module.source.module
        if module.definition(name) is not None:
            return Symbol(home, name)
        imported = module.imported(name)
        if imported is None:
            return self._from_stars(module, name)
        return self.canonical(self.imported_symbol(module, imported), module.source.at(imported.line, imported.column))

    def imported_symbol(self, module: ModuleIndex, item: Import) -> Symbol:
        """The symbol that an import statement names, relative modules made absolute, nothing followed.

        Raises PatchgenError PG102 for a relative import that leaves its package.
        """
        if item.binds_package:
            return Symbol(item.bound)
        target = self.absolute(module, item.module, item.level, module.source.at(item.line, item.column))
        return Symbol(target, item.name)

    def absolute(self, module: ModuleIndex, target: str, level: int, at: Location) -> str:
        """The absolute name of the module that `from ..target import x` in `module` names."""
        if not level:
            return target
        parts = module.source.module.split(".")
        drop = level - (module.source.path.endswith("__init__.py"))
        beside = self.env.beside(module.source.module) if drop == len(parts) else None
        if beside is not None:
            return ".".join([beside, target] if target else [beside])
        if drop >= len(parts):
            raise PatchgenError("PG102", at, f"a relative import leaves the package {parts[0]}", "name it absolutely")
        base = parts[: len(parts) - drop] if drop else parts
        return ".".join([*base, target] if target else base)

    def canonical(self, symbol: Symbol, at: Location) -> Symbol:
        """`symbol` with re-exports and sub-modules followed, as far as files can be found."""
        seen: list[Symbol] = []
        while symbol.name and symbol not in seen:
            seen.append(symbol)
            following = self._follow(symbol, at)
            if following is None:
                return symbol
            symbol = following
        return symbol

    def _follow(self, symbol: Symbol, at: Location) -> Symbol | None:
        if not self.territory.looks_into(symbol.module):
            return None
        inside = f"{symbol.module}.{symbol.name}"
        if self.env.path(symbol.module) is None:  # a folder without `__init__.py`
            return Symbol(inside) if self.env.path(inside) else None
        index = self.env.index(symbol.module, at)
        if index.definition(symbol.name) is not None:
            return None
        imported = index.imported(symbol.name)
        if imported is not None:
            return self.imported_symbol(index, imported)
        if self.env.path(inside) is not None:
            return Symbol(inside)
        return self._from_stars(index, symbol.name)

    def _from_stars(self, module: ModuleIndex, name: str) -> Symbol | None:
        """Where a `from x import *` of a package's `__init__` brings `name` from."""
        if name.startswith("__"):
            return None
        for target, at in self._star_targets(module):
            path = self.env.path(target)
            if path is None or not self.territory.looks_into(target):
                continue
            # Hundreds of files can stand behind a star; a name that a file does not spell is not in it.
            if path.name != "__init__.py" and not self.env.spells(target, name):
                continue
            index = self.env.index(target, at)
            public = index.exports if index.exports is not None else [n for n in index.names if n[0] != "_"]
            found = self.canonical(Symbol(target, name), at) if name in public else self._from_stars(index, name)
            if found is not None:
                return found
        return None

    def _star_targets(self, module: ModuleIndex) -> Iterator[tuple[str, Location]]:
        for block in module.blocks:
            for item in block.imports:
                if item.name == "*":
                    at = module.source.at(item.line, item.column)
                    yield self.absolute(module, item.module, item.level, at), at

    def require(self, symbol: Symbol, at: Location) -> Block:
        """The block that defines `symbol`.

        Raises PatchgenError PG103, with the nearest names, when its module has no such definition.
        """
        index = self.env.index(symbol.module, at)
        block = index.definition(symbol.name)
        if block is None:
            what = f"{symbol.module} defines no {symbol.name}"
            raise PatchgenError("PG103", at, what, did_you_mean(symbol.name, index.names))
        return block

    def dotted(self, module: ModuleIndex, expression: str, at: Location) -> Symbol | None:
        """What a dotted expression (`nn.Module`, `llama.LlamaMLP`) means; None when its first name is not bound."""
        first, *rest = expression.split(".")
        symbol = self.meaning(module, first)
        if symbol is None:
            return None
        for attribute in rest:
            whole = str(symbol)
            symbol = self.canonical(Symbol(whole, attribute), at)
        return symbol
