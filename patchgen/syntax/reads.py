"""What `scopes` finds: scopes with their names, and reads of names that none of them binds.

def f(x):
    return x + SIZE             two reads in the scope of f, which binds x; SIZE is global
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from patchgen.syntax.trees import Position


@dataclass(frozen=True, slots=True)
class Reference:
    """One read of a global name, as `ast` counts lines and byte columns.

    `name` is what Python looks up: in the body of a class `Base`, `__limit` is `_Base__limit`.
    `attributes` is the chain behind it (`nn.Module` reads `nn` with `("Module",)`), and `ends`
    where each of them ends.  `hidden` are the names that scopes around the read bind.
    `eager`: evaluated when the module is imported.  `quoted`: inside a string annotation; the
    position is that of the string.
    """

    name: str
    line: int
    column: int
    eager: bool
    quoted: bool = False
    attributes: tuple[str, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    hidden: frozenset[str] = frozenset()

    @property
    def position(self) -> Position:
        """Where the name stands: the position of the `ast.Name` that reads it."""
        return (self.line, self.column)


def is_private(name: str) -> bool:
    """Whether Python mangles `name` in a class body."""
    return name.startswith("__") and not name.endswith("__") and "." not in name


def mangle(name: str, class_name: str) -> str:
    """`name` as Python reads it in the body of the class `class_name`."""
    prefix = class_name.lstrip("_")
    # A class named `_` mangles nothing.
    return f"_{prefix}{name}" if prefix and is_private(name) else name


class Scope:
    """A function, class, comprehension or list of type parameters, and the names that it binds.

    Python binds names for a whole scope: what code inside it sees is known when all is visited.
    """

    def __init__(self, outer: Scope | None, kind: str, bound: Iterable[str] = ()) -> None:
        self.outer = outer
        self.kind = kind
        self.bound = set(bound)
        # Those that `global` and `nonlocal` declare are none of the scope.
        self.declared: set[str] = set()
        self.declared_global: set[str] = set()

    @functools.cached_property
    def visible(self) -> frozenset[str]:
        """The names that this scope and those around it bind for the code inside it."""
        around = self.outer.visible if self.outer else frozenset()
        # The names of a class are visible in its own body only, not in functions inside it.
        if self.kind == "class":
            return around
        # A `global x` makes reads of x global whatever stands around.
        return (around - self.declared_global) | self.bound
