"""What `super()` can find behind the classes that are merged: the attributes of the bases that stay.

In: classes by their symbols.  Out: the names that they and all their bases have, as far as their files say; None where
one of them cannot be known so (made in C, by a decorator, by a metaclass).  Names may be too many, never too few.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.declare import Declaration, ModulePlan
from patchgen.compiler.plan.flatten_scope import Everywhere
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.locate import Environment
from patchgen.syntax.scopes import bound_names

# What every class and every `super()` has.
ALWAYS = frozenset(dir(type("", (), {}))) | frozenset(dir(super))
_NOWHERE = Location("")
_HARMLESS_METACLASSES = ("ABCMeta", "abc.ABCMeta", "type")
# What class decorators add that is not in `ALWAYS`; others may add anything.
_ADDED: dict[str, tuple[str, ...]] = {
    "auto_docstring": (),
    "add_start_docstrings": (),
    "dataclass_transform": ("__dataclass_transform__",),
    "runtime_checkable": (),
    "dataclass": ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__"),
    "strict": ("__validators__", "__class_validators__", "__post_init__", "validate"),
}


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
        """All that can be found behind the chain of `declaration`, if `name` is surely not among it; else None."""
        if name in ALWAYS:
            return None
        try:
            found = frozenset(
                late for symbol in declaration.chain for late in self._set_below(symbol)
            )
            if name in found:
                return None
            # One after the other: most searches end at the first class.
            for names in chain(
                self._inherited(declaration.rest), self._inherited(self._beside(declaration, plan))
            ):
                if names is None or name in names:
                    return None
                found |= names
        except PatchgenError:
            return None  # what cannot be read cannot be known
        return found

    def _beside(self, declaration: Declaration, plan: ModulePlan) -> Iterator[Symbol]:
        """What follows the chain in the MRO of classes that derive from one of it, in the files of the plan.

        Where the flat class is one of several bases, `super()` goes on to the others.
        """
        for module in (*(layer.source.module for layer in plan.layers), *plan.parents):
            for heir in self._env.index(module, _NOWHERE).classes:
                mro = self.lineages.mro(Symbol(module, heir), _NOWHERE)
                places = [mro.index(symbol) for symbol in declaration.chain if symbol in mro]
                yield from (
                    s
                    for s in mro[min(places, default=len(mro)) + 1 :]
                    if s not in declaration.chain
                )

    @property
    def _env(self) -> Environment:
        return self.lineages.bindings.env

    def _inherited(self, symbols: Iterable[Symbol]) -> Iterator[frozenset[str] | None]:
        """The attributes of each of the classes and of all their bases, nearest first; None for what is unknown."""
        seen: set[Symbol] = set()
        waiting = list(symbols)
        while waiting:
            symbol = self.lineages.bindings.canonical(waiting.pop(0), _NOWHERE)
            if symbol not in seen:
                seen.add(symbol)
                yield self._own(symbol)
                waiting += [
                    base.symbol for base in self.lineages.direct_bases(symbol, _NOWHERE) or ()
                ]

    def _own(self, symbol: Symbol) -> frozenset[str] | None:
        """What a class itself has; None where it cannot be known."""
        if symbol.module == "builtins":
            return frozenset(dir(getattr(builtins, symbol.name, object)))
        if self._env.path(symbol.module) is None:
            return None
        block = _plain_class(self._env.index(symbol.module, _NOWHERE), symbol.name)
        return None if block is None else _own_names(block) | self._set_below(symbol)

    def _set_below(self, symbol: Symbol) -> frozenset[str]:
        """The attributes that a module gives to its class `symbol` after the class statement."""
        index = self._env.index(symbol.module, _NOWHERE)
        others = [block for block in index.blocks if block.kind not in ("class", "import")]
        blocks = [
            block for block in others if f"{symbol.name}." in block.text or "setattr" in block.text
        ]
        return frozenset(
            name for block in blocks for name in _attributes_set(ast.walk(ast.parse(block.text)))
        )


def _plain_class(index: ModuleIndex, name: str) -> Block | None:
    """The class statement that alone binds `name`, if nothing but its body decides what the class has."""
    binders = [block for block in index.blocks if name in block.defines]
    if len(binders) != 1 or binders[0].kind != "class":
        return None
    node = _statement(binders[0])
    metaclasses = [
        ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "metaclass"
    ]
    unpacked = any(keyword.arg is None for keyword in node.keywords)
    told = (
        not unpacked
        and set(metaclasses) <= set(_HARMLESS_METACLASSES)
        and set(_decorators(node)) <= set(_ADDED)
    )
    return binders[0] if told else None


def _decorators(node: ast.ClassDef) -> list[str]:
    """The names of the class decorators, whatever module they are reached by."""
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return [ast.unparse(expression).rpartition(".")[2] for expression in called]


def _own_names(block: Block) -> frozenset[str]:
    """What a class body binds, and what its methods set: `__init_subclass__` may set it on a class."""
    node = _statement(block)
    added = [name for decorator in _decorators(node) for name in _ADDED[decorator]]
    return frozenset([*bound_names(node.body), *_attributes_set(ast.walk(node)), *added]) | ALWAYS


def _attributes_set(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of attributes that are assigned, also by `setattr`."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name
            case _:
                pass


def _statement(block: Block) -> ast.ClassDef:
    return next(node for node in ast.parse(block.text).body if isinstance(node, ast.ClassDef))
