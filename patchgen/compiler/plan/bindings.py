"""Decide which modules are flattened, which are only read, and which are left alone.

Flattened: `transformers.models.*`, `patchgen.parts.*`, the modular file's own package and the
packages that the project names.  Only read: the `__init__` of transformers, which re-exports its
models.  The flat file imports from everything else as it stands.

    from transformers.models.llama.modeling_llama import LlamaMLP   carried, or merged
    from transformers import LlamaMLP                               followed to the line above
    from torch import nn                                            stays an import
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchgen.compiler.plan.model import Symbol
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import Environment, is_beside

PARTS = "patchgen.parts"


@dataclass(frozen=True, slots=True)
class FlattenScope:
    """The packages to flatten.

    `own` is the top-level package of the modular file, `extra` those that the project names.
    """

    own: str
    extra: tuple[str, ...] = ()

    def flattens(self, module: str) -> bool:
        """Whether classes and functions of `module` are carried into the flat file."""
        return _flattens(module, self.own, self.extra)

    def is_own(self, module: str) -> bool:
        """Whether `module` is flattened and belongs neither to transformers nor to patchgen.

        Nothing but the flat file would run its statements.
        """
        if _is_inside(module, MODELS) or _is_inside(module, PARTS):
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


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@dataclass(frozen=True)
class Bindings:
    """Answers for one modular file, whose `flatten_scope` says which files are looked into."""

    env: Environment
    flatten_scope: FlattenScope
    _meanings: dict[tuple[str, int, str], Symbol | None] = field(
        default_factory=dict, repr=False, compare=False
    )
    _deciding: dict[tuple[str, int, str], Import | Block | Symbol | None] = field(
        default_factory=dict, repr=False, compare=False
    )
    _ends: dict[Symbol, Symbol] = field(default_factory=dict, repr=False, compare=False)

    def meaning(self, module: ModuleIndex, name: str) -> Symbol | None:
        """What the global `name` means in `module`, re-exports followed."""
        key = _key(module, name)
        if key not in self._meanings:
            self._meanings[key] = self._meaning(module, name)
        return self._meanings[key]

    def _meaning(self, module: ModuleIndex, name: str) -> Symbol | None:
        """As `meaning`, computed anew."""
        says = self._says(module, name)
        if isinstance(says, Import):
            symbol = self.imported_symbol(module, says)
            return self.canonical(symbol, module.source.at(says.line, says.column))
        # A definition is its own end; what a star import brings has been followed already.
        if isinstance(says, Block):
            return Symbol(module.source.module, name)
        return says

    def _says(self, module: ModuleIndex, name: str) -> Import | Block | Symbol | None:
        """What decides the meaning of `name` in `module`.

        That is an import, a definition there, or what a star import brings.  Where several
        statements bind the name, and only running the module shows which one counts, it is a
        definition: all of them are carried as they stand.
        """
        key = _key(module, name)
        if key not in self._deciding:
            self._deciding[key] = self._decide(module, name)
        return self._deciding[key]

    def _decide(self, module: ModuleIndex, name: str) -> Import | Block | Symbol | None:
        """As `_says`, computed anew."""
        binders = module.binders(name)
        # A star import rebinds what stands above it.
        stars = self._find_stars(module)
        if binders:
            stars = [star for star in stars if star.line > binders[-1].last]
        brought = self._from_stars(module, name, stars) if stars else None
        if brought is not None or not binders:
            return brought
        return self._choose_binder(module, name, binders)

    def _choose_binder(
        self, module: ModuleIndex, name: str, binders: tuple[Block, ...]
    ) -> Import | Block:
        """The import that decides what `name` means, or the last of `binders` as a definition."""
        last = binders[-1]
        own = _imports_of(last, name)
        if not own:
            return last
        imports: list[Import] = []
        for block in binders:
            imports += _imports_of(block, name)
        # `import a.b` and `import a.c` both bind `a`, the same package.
        are_packages = all(item.binds_package for item in imports)
        if are_packages and len(own) == len(imports):
            return own[-1]
        # `try: import x` and `except ImportError: x = None`: only running shows which one counts.
        is_certain = not last.is_guarded or self._is_one_import(module, binders, imports)
        return own[-1] if is_certain else last

    def counts(self, module: ModuleIndex, item: Import) -> bool:
        """Whether no later statement of `module` rebinds the name that `item` imports."""
        says = self._says(module, item.bound)
        if not isinstance(says, Import):
            return not isinstance(says, Block)
        if item.binds_package:
            return True
        symbol = self.imported_symbol(module, item)
        return symbol.is_same(self.imported_symbol(module, says))

    def is_contested(self, module: ModuleIndex, name: str) -> bool:
        """Whether a condition decides which statement binds `name`."""
        if not isinstance(self._says(module, name), Block):
            return False
        return any(block.is_guarded for block in module.binders(name))

    def _is_one_import(
        self, module: ModuleIndex, binders: tuple[Block, ...], items: list[Import]
    ) -> bool:
        """Whether all `binders` are imports of one thing from outside."""
        symbol, *others = [self.imported_symbol(module, item) for item in items]
        if not all(symbol.is_same(other) for other in others):
            return False
        # Under `except ImportError:` there may be an assignment instead.
        if not all(block.imports for block in binders):
            return False
        # A carried definition would need both statements in the flat file.  What is flattened may
        # also be missing, and Python would then go on in `except ImportError:`.
        return not self.flatten_scope.flattens(symbol.module)

    def imported_symbol(self, module: ModuleIndex, item: Import) -> Symbol:
        """The symbol that an import statement names, as an absolute module; nothing is followed.

        Raises PatchgenError PG102 for a relative import that leaves its package.
        """
        if item.binds_package:
            return Symbol(item.bound)
        target = self.absolute(
            module, item.module, item.level, module.source.at(item.line, item.column)
        )
        return Symbol(target, item.name)

    def absolute(self, module: ModuleIndex, target: str, level: int, at: Location) -> str:
        """The absolute name of the module that `from ..target import x` in `module` names.

        A relative import that is marked to be kept is not looked up: it keeps its dots.
        """
        if not level:
            return target
        if _is_kept(module, target, level):
            return "." * level + target
        parts = module.source.module.split(".")
        # One dot means the package that holds the module; a package holds itself.
        drop = level
        if module.source.path.endswith("__init__.py"):
            drop = level - 1
        if drop >= len(parts):
            base = self._find_base_beside(module, drop, at)
        else:
            base = parts[: len(parts) - drop]
        # `from . import x` names the package itself.
        names = [*base, target] if target else base
        return ".".join(names)

    def _find_base_beside(self, module: ModuleIndex, drop: int, at: Location) -> list[str]:
        """The folder of a modular file that lies in no package, as the start of a module name.

        Such a file imports its neighbours by `from .helpers import x`.
        """
        parts = module.source.module.split(".")
        beside = None
        # With one more dot, the import would leave the folder too.
        if drop == len(parts):
            beside = self.env.beside(module.source.module)
        if beside is None:
            what = f"a relative import leaves the package {parts[0]}"
            raise PatchgenError("PG102", at, what, "name it absolutely")
        return [beside]

    def canonical(self, symbol: Symbol, at: Location) -> Symbol:
        """`symbol` with re-exports and sub-modules followed, as far as files can be found."""
        if symbol not in self._ends:
            self._ends[symbol] = self._end(symbol, at)
        return self._ends[symbol]

    def _end(self, symbol: Symbol, at: Location) -> Symbol:
        """The definition at the end of all re-exports, or what could be followed of them."""
        # Two packages can re-export from each other; `seen` ends such a cycle.
        seen: list[Symbol] = []
        while symbol.name and symbol not in seen:
            seen.append(symbol)
            following = self._follow(symbol, at)
            if following is None:
                return symbol
            symbol = following
        return symbol

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
                return self.imported_symbol(index, says)
            case Block():
                return None
            case None if self.env.path(inside) is not None:
                # A sub-module is an attribute of its package, if nothing else has its name.
                return Symbol(inside)
            case _:
                return says

    def _from_stars(self, module: ModuleIndex, name: str, stars: Sequence[Import]) -> Symbol | None:
        """Where a `from x import *` brings `name` from: the last one that has it."""
        # A star import brings no dunder names, whatever `__all__` says.
        if name.startswith("__"):
            return None
        for star in reversed(stars):
            found = self._from_star(module, name, star)
            if found is not None:
                return found
        return None

    def _from_star(self, module: ModuleIndex, name: str, star: Import) -> Symbol | None:
        """What one star import brings under `name`; None where it does not."""
        at = module.source.at(star.line, star.column)
        target = self.absolute(module, star.module, star.level, at)
        path = self.env.path(target)
        if path is None or not self.flatten_scope.looks_into(target):
            return None
        # Hundreds of files can stand behind a star: their text tells most of them apart from
        # the one, without parsing.
        if path.name == "__init__.py":
            may_bring = self.env.look("star", f"{name} {target}") != ""
        else:
            may_bring = self._may_export(target, name)
        if not may_bring:
            return None
        index = self.env.index(target, at)
        if name in _list_exported(index):
            return self.canonical(Symbol(target, name), at)
        # The names that it has from a star of its own are not among those that it binds.
        return self._from_stars(index, name, self._find_stars(index))

    def _may_export(self, module: str, name: str) -> bool:
        """Whether `from module import *` may bring `name`, as far as the unparsed text tells.

        The text has to spell the name, and in quotes where a statement sets `__all__`.
        """
        if not self.env.spells(module, name):
            return False
        if not self.env.spells(module, "\n__all__"):
            return True
        quoted = (f'"{name}"', f"'{name}'")
        return any(self.env.spells(module, spelled) for spelled in quoted)

    def _find_stars(self, module: ModuleIndex) -> list[Import]:
        """The star imports of `module`, in order."""
        return [item for item in module.imports if item.name == "*"]

    def require(self, symbol: Symbol, at: Location) -> Block:
        """The block that defines `symbol`.

        Raises PatchgenError PG103, with the nearest names, when its module has no such definition.
        """
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
            self._refuse_no_module(module, first, says, at)
        for attribute in rest:
            whole = str(symbol)
            symbol = self.canonical(Symbol(whole, attribute), at)
        return symbol

    def _refuse_no_module(self, module: ModuleIndex, name: str, says: Block, at: Location) -> None:
        """Raise the error for attributes of a name that is a definition."""
        if any(item.bound == name for item in says.imports):
            hint = "import it without a condition: which one it is, is known at run time only"
            raise PatchgenError("PG111", at, f"{name} is imported under a condition", hint)
        kinds = {"class": "class", "def": "function"}
        kind = kinds.get(says.kind, "name")
        what = f"{kind} {name}, on line {says.first}, is no module"
        # Most likely the author meant the module, and did not see the later definition.
        if any(item.bound == name for item in module.imports):
            what = f"{kind} {name}, on line {says.first}, hides import {name}"
        raise PatchgenError("PG109", at, what, "give one of them another name")


def _list_exported(index: ModuleIndex) -> tuple[str, ...]:
    """The names that a star import of the module brings, of those that it binds itself."""
    if index.exports is not None:
        return index.exports
    return tuple(bound for bound in index.names if not bound.startswith("_"))


def _imports_of(block: Block, name: str) -> list[Import]:
    """The imports of one statement that bind `name`."""
    return [item for item in block.imports if item.bound == name]


def _key(module: ModuleIndex, name: str) -> tuple[str, int, str]:
    """What the answers about `name` in `module` are kept by."""
    # A modular file and its variant without some blocks have one name.
    return (module.source.module, len(module.blocks), name)


# Marks a relative import of what only the flat file's folder has: `from .cache import KVCache`.
KEPT = "# patchgen: keep"


def is_kept(symbol: Symbol) -> bool:
    """Whether `symbol` comes from a relative import that stays and replaces the parents' import."""
    return symbol.module.startswith(".")


@functools.lru_cache(maxsize=512)  # asked for each relative import, with the text of its file
def _has_mark(text: str) -> bool:
    """Whether `text` marks an import by `KEPT`."""
    return KEPT in text


def _is_kept(module: ModuleIndex, target: str, level: int) -> bool:
    """Whether the file marks this relative import by `KEPT`."""
    # Nearly no file has the mark.
    if not _has_mark(module.source.text):
        return False
    dots = re.escape("." * level + target)
    line = rf"^[ \t]*from[ \t]+{dots}[ \t]+import\b.*{KEPT}[ \t]*$"
    return re.search(line, module.source.text, re.MULTILINE) is not None
