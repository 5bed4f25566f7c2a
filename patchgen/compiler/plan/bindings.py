"""Decide which modules are flattened, which are only read, and which are left alone.

Flattened: `transformers.models.*`, `patchgen.parts.*`, the modular file's own package and the
packages that the project names.  Only read: the `__init__` of transformers, which re-exports its
models.  The flat file imports from everything else as it stands.

    from transformers.models.llama.modeling_llama import LlamaMLP   carried, or merged
    from transformers import LlamaMLP                               followed to the line above
    from torch import nn                                            stays an import
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, field

from patchgen.compiler.plan.model import Symbol
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.kept import per_object
from patchgen.syntax.locate import Environment, is_beside
from patchgen.syntax.trees import statement_at

PARTS = "patchgen.parts"


@dataclass(frozen=True, slots=True)
class FlattenScope:
    """The packages to flatten: `own` of the modular file, `extra` those of the project."""

    own: str
    extra: tuple[str, ...] = ()

    def flattens(self, module: str) -> bool:
        """Whether classes and functions of `module` are carried into the flat file."""
        return _flattens(module, self.own, self.extra)

    def is_own(self, module: str) -> bool:
        """Whether `module` is flattened and belongs neither to transformers nor to patchgen.

        Nothing but the flat file would run its statements.
        """
        if _is_inside(module, MODELS) or is_part(module):
            return False
        return self.flattens(module)

    def looks_into(self, module: str) -> bool:
        """Whether re-exports of `module` are followed."""
        return module == "transformers" or self.flattens(module)

    def knows_bases_of(self, module: str) -> bool:
        """Whether the bases of classes of `module` are read; the classes of torch are leaves."""
        return _is_inside(module, "transformers") or self.flattens(module)


class Everywhere(FlattenScope):
    """Follows re-exports and bases wherever there are files, for what is only read."""

    def looks_into(self, module: str) -> bool:
        """Always."""
        return True

    def knows_bases_of(self, module: str) -> bool:
        """Always."""
        return True


@functools.lru_cache(maxsize=4096)  # asked thousands of times about few modules
def _flattens(module: str, own: str, extra: tuple[str, ...]) -> bool:
    if is_beside(module):
        return True
    packages = [MODELS, PARTS, *extra]
    # A file inside transformers does not make all of transformers its own.
    if own != "transformers":
        packages.append(own)
    return any(_is_inside(module, package) for package in packages)


def is_part(module: str) -> bool:
    """Whether `module` is one of patchgen's parts, whose classes keep their names."""
    return _is_inside(module, PARTS)


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@dataclass(frozen=True, eq=False)
class Bindings:
    """Answers for one modular file, whose `flatten_scope` says which files are looked into."""

    env: Environment
    flatten_scope: FlattenScope
    # The modules whose language was checked.
    checked: set[str] = field(default_factory=set, repr=False)
    _ends: dict[Symbol, Symbol] = field(default_factory=dict, repr=False)

    @per_object
    def meaning(self, module: ModuleIndex, name: str) -> Symbol | None:
        """What the global `name` means in `module`, re-exports followed."""
        says = self._says(module, name)
        if isinstance(says, Import):
            symbol = self.imported_symbol(module, says)
            return self.canonical(symbol, module.source.at(says.line, says.column))
        # A definition is its own end; what a star import brings has been followed already.
        return Symbol(module.source.module, name) if isinstance(says, Block) else says

    @per_object
    def _says(self, module: ModuleIndex, name: str) -> Import | Block | Symbol | None:
        """What decides the meaning of `name`: an import, a definition, or what a star brings.

        Where a condition decides which statement counts, it is a definition: all of them are
        carried as they stand.
        """
        binders = module.binders(name)
        if not binders:
            return self._from_stars(module, name)
        last = binders[-1]
        if not _imports_of(last, name):
            return last
        items: list[Import] = []
        for block in binders:
            items += _imports_of(block, name)
        item = items[-1]
        if not last.is_guarded:
            return item
        # `try: import x` and `except ImportError: x = None`.  What is flattened may also be
        # missing, and Python would then go on in `except ImportError:`.
        symbols = {str(self.imported_symbol(module, each)) for each in items}
        is_one = len(symbols) == 1 and all(block.imports for block in binders)
        target = self.imported_symbol(module, item).module
        return item if is_one and not self.flatten_scope.flattens(target) else last

    def counts(self, module: ModuleIndex, item: Import) -> bool:
        """Whether no later statement of `module` rebinds the name that `item` imports."""
        says = self._says(module, item.bound)
        if not isinstance(says, Import) or item.binds_package:
            return not isinstance(says, Block)
        symbol = self.imported_symbol(module, item)
        return symbol.is_same(self.imported_symbol(module, says))

    def is_contested(self, module: ModuleIndex, name: str) -> bool:
        """Whether a condition says which statement binds `name`, or one reads what it replaces.

        from kernels import act
        act = torch.compile(act)
        """
        if not isinstance(self._says(module, name), Block):
            return False
        is_guarded = any(block.is_guarded for block in module.binders(name))
        return is_guarded or module.is_read_between(name)

    def imported_symbol(self, module: ModuleIndex, item: Import) -> Symbol:
        """The symbol that an import names; raises PG102 for one that leaves its package."""
        if item.binds_package:
            return Symbol(item.bound)
        at = module.source.at(item.line, item.column)
        return Symbol(self.absolute(module, item.module, item.level, at), item.name)

    def absolute(self, module: ModuleIndex, target: str, level: int, at: Location) -> str:
        """The absolute name of what a relative import names; one to be kept keeps its dots."""
        if not level:
            return target
        written = "." * level + target
        if written in _list_kept(module.source.text):
            return written
        parts = module.source.module.split(".")
        # One dot means the package that holds the module; a package holds itself.
        drop = level - module.source.path.endswith("__init__.py")
        base: str | None = ".".join(parts[:-drop] if drop else parts)
        if not base:
            # A modular file in no package imports its neighbours by `from .helpers import x`.
            base = self.env.beside(module.source.module) if drop == len(parts) else None
            if base is None:
                what = f"a relative import leaves the package {parts[0]}"
                raise PatchgenError("PG102", at, what, "name it absolutely")
        # `from . import x` names the package itself.
        return f"{base}.{target}" if target else base

    def canonical(self, symbol: Symbol, at: Location) -> Symbol:
        """`symbol` with re-exports and sub-modules followed, as far as files can be found."""
        if symbol not in self._ends:
            # Two packages can re-export from each other; `seen` ends such a cycle.
            seen: list[Symbol] = []
            following: Symbol | None = symbol
            while following is not None and following not in seen:
                seen.append(following)
                following = self._follow(following, at) if following.name else None
            self._ends[symbol] = seen[-1] if following is None else following
        return self._ends[symbol]

    def follow(self, name: str) -> str:
        """`canonical` of a dotted name; the name itself where its module cannot be read."""
        module, _, last = name.rpartition(".")
        try:
            return str(self.canonical(Symbol(module, last), Location(module)))
        except PatchgenError:
            return name

    def _follow(self, symbol: Symbol, at: Location) -> Symbol | None:
        """What `symbol` stands for, one step further; None where it is a definition."""
        if not self.flatten_scope.looks_into(symbol.module):
            return None
        inside = f"{symbol.module}.{symbol.name}"
        if self.env.path(symbol.module) is None:  # a folder without `__init__.py`
            return Symbol(inside) if self.env.path(inside) else None
        index = self.env.index(symbol.module, at)
        says = self._says(index, symbol.name)
        match says:
            case Import():
                target = self.imported_symbol(index, says)
                # `from . import llama` in the package itself is the sub-module.
                return Symbol(inside) if target == symbol else target
            case Block():
                return None
            case None if self.env.path(inside) is not None:
                # A sub-module is an attribute of its package, if nothing else has its name.
                return Symbol(inside)
            case _:
                return says

    def _from_stars(self, module: ModuleIndex, name: str) -> Symbol | None:
        """Where a `from x import *` brings `name` from: the last one that has it."""
        # A star import brings no dunder names, whatever `__all__` says.
        if name.startswith("__"):
            return None
        # `from transformers import initialization`: none of a thousand files is searched for it.
        if self.env.path(f"{module.source.module}.{name}") is not None:
            return None
        for star in reversed([item for item in module.imports if item.name == "*"]):
            at = module.source.at(star.line, star.column)
            target = self.absolute(module, star.module, star.level, at)
            if self.env.path(target) is None or not self.flatten_scope.looks_into(target):
                continue
            # Hundreds of files can stand behind a star: the search spares parsing most of them.
            if not self.env.look("star", f"{name} {target}"):
                continue
            index = self.env.index(target, at)
            exports = index.exports
            if exports is None:
                exports = tuple(bound for bound in index.names if not bound.startswith("_"))
            # The names that it has from a star of its own are not among those that it binds.
            symbol = Symbol(target, name)
            found = self.canonical(symbol, at) if name in exports else self._from_stars(index, name)
            if found is not None:
                return found
        return None

    def require(self, symbol: Symbol, at: Location) -> Block:
        """The block that defines `symbol`; raises PG103 with the nearest names without one."""
        index = self.env.index(symbol.module, at)
        says = self._says(index, symbol.name)
        block = says if isinstance(says, Block) else index.definition(symbol.name)
        if block is None:
            what = f"{symbol.module} defines no {symbol.name}"
            hint = did_you_mean(symbol.name, index.names)
            # PEP 562: a module may have names that no statement binds.
            if index.definition("__getattr__") is not None:
                what += ", which its __getattr__ may make while the program runs"
                hint = hint or (
                    "name the definition that it gives, or import the name inside a function: "
                    "such an import stays"
                )
            raise PatchgenError("PG103", at, what, hint)
        return block

    def dotted(self, module: ModuleIndex, expression: str, at: Location) -> Symbol | None:
        """What a dotted expression means: `nn.Module`, `llama.LlamaMLP`.

        None when nothing binds its first name.  Raises PatchgenError PG109 where the first name is
        no module, PG111 where it is a module under a condition only.
        """
        first, *rest = expression.split(".")
        symbol = self.meaning(module, first)
        if symbol is None:
            return None
        # `llama.LlamaMLP` needs a module; a definition named llama hides it.
        says = self._says(module, first)
        if rest and isinstance(says, Block):
            if any(item.bound == first for item in says.imports):
                hint = "import it without a condition: which one it is, is known at run time only"
                raise PatchgenError("PG111", at, f"{first} is imported under a condition", hint)
            kind = {"class": "class", "def": "function"}.get(says.kind, "name")
            what = f"{kind} {first}, on line {says.first}, is no module"
            raise PatchgenError("PG109", at, what, "give one of them another name")
        for attribute in rest:
            symbol = self.canonical(Symbol(str(symbol), attribute), at)
        return symbol


def _imports_of(block: Block, name: str) -> list[Import]:
    return [item for item in block.imports if item.bound == name]


# Marks a relative import of what only the flat file's folder has: `from .cache import KVCache`.
# It also marks a statement that stays as it is, whatever is wrong with the names and calls in it.
KEPT = "# patchgen: keep"


def is_marked(text: str, line: int) -> bool:
    """Whether the statement at a line of `text` has the mark."""
    if KEPT not in text:
        return False
    first, last = statement_at(ast.parse(text), line)
    return any(KEPT in each for each in text.split("\n")[first:last])


def is_kept(symbol: Symbol) -> bool:
    """Whether `symbol` comes from a relative import that stays and replaces the parents' import."""
    return symbol.module.startswith(".")


@functools.lru_cache(maxsize=512)  # asked for each relative import, with the text of its file
def _list_kept(text: str) -> frozenset[str]:
    """The modules, with their dots, of the relative imports that `text` marks by `KEPT`.

    The mark stands behind the statement, or behind any of its names.
    """
    if KEPT not in text:
        return frozenset()
    names = rf"(?:.*{KEPT}[ \t]*$|[ \t]*\([^()]*?{KEPT}[ \t]*$)"
    return frozenset(
        re.findall(rf"^[ \t]*from[ \t]+(\.\S*)[ \t]+import\b{names}", text, re.MULTILINE)
    )
