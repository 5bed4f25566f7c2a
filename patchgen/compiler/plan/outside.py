"""Collect the attributes of the bases that stay: what `super()` can find behind the chain.

In: classes by their symbols.  Out: the names that they and all their bases have, as far as their
files tell; None where one of them cannot be known (made in C, by a decorator, by a metaclass).
There may be too many names, never too few.

    class Toy(nn.Module):           all that nn.Module has: `forward`, `training`, ...
    class Toy(Registry("toy")):     None: which class the call gives is known at run time only
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from patchgen.compiler.plan.bindings import Bindings, Everywhere
from patchgen.compiler.plan.declare import Declaration, ModulePlan
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.bases import MODULE_MEMBERS
from patchgen.facts.decorators import ADDED_MEMBERS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.kept import per_object
from patchgen.syntax.locate import Environment
from patchgen.syntax.trees import parse_class, parse_once, short_name, walk

# What every class and every `super()` has.
ALWAYS = frozenset(dir(type("", (), {}))) | frozenset(dir(super))
_NOWHERE = Location("")
_OF_MODULE = MODULE_MEMBERS | ALWAYS
# These are known without their files: torch need not be installed.
KNOWN = {
    "builtins.object": ALWAYS,
    "abc.ABC": ALWAYS,
    "torch.nn.Module": _OF_MODULE,
    "torch.nn.modules.Module": _OF_MODULE,
    "torch.nn.modules.module.Module": _OF_MODULE,
}
_HARMLESS_METACLASSES = ("ABCMeta", "abc.ABCMeta", "type")


def outside(env: Environment) -> Outside:
    """What can be known of bases in `env`."""
    return Outside(Lineages(Bindings(env, Everywhere(""))))


@dataclass(frozen=True)
class Outside:
    """`lineages` looks into every file, also those of packages that are not flattened."""

    lineages: Lineages

    def lacking(
        self, declaration: Declaration, plan: ModulePlan, name: str
    ) -> frozenset[str] | None:
        """All that can be found behind the chain of `declaration`.

        None unless `name` is surely not among it.
        """
        if name in ALWAYS:
            return None
        try:
            names_set: set[str] = set()
            for symbol in declaration.chain:
                names_set |= self._find_set_below(symbol)
            # A statement below a merged class sets the attribute.
            if name in names_set:
                return None
            inherited = self._members_of(declaration.rest)
            beside = self._members_of(self._beside(declaration, plan))
            # One after the other: most searches end at the first class.
            for names in chain(inherited, beside):
                if names is None or name in names:
                    return None
                names_set |= names
        except PatchgenError:
            return None  # what cannot be read cannot be known
        return frozenset(names_set)

    def inherited(self, symbol: Symbol, plan: ModulePlan) -> frozenset[str] | None:
        """What the class `symbol` of a modular file may override; None where it cannot be known.

        A mixin overrides what its heirs inherit.
        """
        inherited: frozenset[str] = frozenset()
        try:
            for declaration in plan.declarations:
                mro = self.lineages.mro(declaration.symbol, declaration.at)
                if symbol in mro:
                    for ancestor in mro:
                        members = frozenset() if ancestor == symbol else self.list_members(ancestor)
                        if members is None:
                            return None
                        inherited |= members
        except PatchgenError:
            return None
        return inherited

    @per_object
    def list_members(self, symbol: Symbol) -> frozenset[str] | None:
        """What a class itself has, whatever its decorators add; None where it cannot be known."""
        members = self._members(symbol)
        if members is not None or self._env.path(symbol.module) is None:
            return members
        block = self._env.index(symbol.module, _NOWHERE).definition(symbol.name)
        return _own_names(block.text) if block is not None and block.kind == "class" else None

    def texts_of_bases(self, plan: ModulePlan) -> str:
        """The files of the classes that stay bases of classes of the plan, parents' and new ones.

        What is left of the parents' own files stands in the outputs.
        """
        modules: set[str] = set()
        for mro in self._mros_of(plan):
            modules.update(symbol.module for symbol in mro)
        modules -= {*plan.parents, *plan.modules}
        files = sorted(module for module in modules if self._env.path(module) is not None)
        return "\n".join(self._env.index(module, _NOWHERE).source.text for module in files)

    def _beside(self, declaration: Declaration, plan: ModulePlan) -> Iterator[Symbol]:
        """What follows the chain in the MRO of classes of the plan that derive from a class of it.

        Where the flat class is one of several bases, `super()` goes on to the others.
        """
        merged = declaration.chain
        for mro in self._mros_of(plan):
            places = [place for place, symbol in enumerate(mro) if symbol in merged]
            # A class that derives from none of the chain has nothing to add.
            if places:
                behind = mro[places[0] + 1 :]
                yield from (symbol for symbol in behind if symbol not in merged)

    def _mros_of(self, plan: ModulePlan) -> Iterator[tuple[Symbol, ...]]:
        """The MRO of each class of the modular files and of the parents' modules."""
        for module in (*plan.modules, *plan.parents):
            for name in self._env.index(module, _NOWHERE).classes:
                yield self.lineages.mro(Symbol(module, name), _NOWHERE)

    @property
    def _env(self) -> Environment:
        return self.lineages.bindings.env

    def _members_of(self, symbols: Iterable[Symbol]) -> Iterator[frozenset[str] | None]:
        """The attributes of each class and of its bases, nearest first; None for the unknown."""
        seen: set[Symbol] = set()
        waiting = list(symbols)
        while waiting:
            symbol = self.lineages.bindings.canonical(waiting.pop(0), _NOWHERE)
            if symbol in seen:
                continue
            seen.add(symbol)
            yield self._members(symbol)
            for base in self.lineages.direct_bases(symbol, _NOWHERE) or ():
                waiting.append(base.symbol)

    def _members(self, symbol: Symbol) -> frozenset[str] | None:
        """What a class itself has; None where it cannot be known."""
        if str(symbol) in KNOWN:
            return KNOWN[str(symbol)]
        # Builtin classes are the same wherever patchgen runs.
        if symbol.module == "builtins":
            return frozenset(dir(getattr(builtins, symbol.name, object)))
        if self._env.path(symbol.module) is None:
            return None
        block = _find_plain_class(self._env.index(symbol.module, _NOWHERE), symbol.name)
        if block is None:
            return None
        return _own_names(block.text) | self._find_set_below(symbol)

    def _find_set_below(self, symbol: Symbol) -> frozenset[str]:
        """The attributes that a module gives to its class `symbol` after the class statement."""
        index = self._env.index(symbol.module, _NOWHERE)
        names: set[str] = set()
        for block in index.blocks:
            if block.kind in ("class", "import"):
                continue
            # Parsing every block of every base would take too long.
            if f"{symbol.name}." in block.text or "setattr" in block.text:
                names.update(_find_attributes_set(walk(parse_once(block.text))))
        return frozenset(names)


def _find_plain_class(index: ModuleIndex, name: str) -> Block | None:
    """The class statement that alone binds `name`, if its body alone decides what the class has."""
    binders = index.blocks_that_bind(name)
    # Bound twice, the class depends on what runs.
    if len(binders) != 1:
        return None
    block = binders[0]
    if block.kind != "class" or not _is_plain_class(block.text):
        return None
    return block


@functools.lru_cache(maxsize=512)  # `PreTrainedModel` alone has thousands of lines.
def _is_plain_class(text: str) -> bool:
    """Whether neither keywords nor decorators of a class statement may change what it has."""
    node = parse_class(text)
    if any(map(_may_name_metaclass, node.keywords)):
        return False
    # A decorator may return another class altogether.
    # Whatever module it is reached by, and however it is called.
    return all(short_name(decorator) in ADDED_MEMBERS for decorator in node.decorator_list)


def _may_name_metaclass(keyword: ast.keyword) -> bool:
    """Whether a keyword of a class statement may bring a metaclass that adds attributes."""
    # `**keywords` may hold anything.
    if keyword.arg is None:
        return True
    is_harmless = ast.unparse(keyword.value) in _HARMLESS_METACLASSES
    return keyword.arg == "metaclass" and not is_harmless


@functools.lru_cache(maxsize=512)  # Every model has the same few bases, which are long.
def _own_names(text: str) -> frozenset[str]:
    """What a class body binds and its methods set: `__init_subclass__` may set it on a class."""
    node = parse_class(text)
    names = {*bound_names(node.body), *_find_attributes_set(walk(node))}
    for decorator in node.decorator_list:
        names.update(ADDED_MEMBERS.get(short_name(decorator), ()))
    return ALWAYS | names


def _find_attributes_set(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of attributes that are assigned, also by `setattr`."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name
