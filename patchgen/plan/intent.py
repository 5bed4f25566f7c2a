"""Whether a class says something that only a merged class can do: an edit of a parent's method.

In: the classes of a chain.  Out: whether one of them makes an edit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from patchgen.plan.bindings import Bindings
from patchgen.plan.model import Symbol
from patchgen.source.blocks import ModuleIndex

MODULE = "patchgen.edits"


def edited(chain: Iterable[tuple[ModuleIndex, Symbol]], bindings: Bindings) -> bool:
    """Whether a class of `chain` edits what a class behind it has."""
    return any(_makes_edits(index, symbol.name, bindings) for index, symbol in chain)


def _makes_edits(index: ModuleIndex, name: str, bindings: Bindings) -> bool:
    block = index.definition(name)
    if block is None or block.kind != "class" or "patchgen" not in index.source.text:
        return False
    for node in ast.walk(ast.parse(block.text)):
        for decorator in getattr(node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if bindings.dotted(index, ast.unparse(called), index.source.at(block.first)) == Symbol(MODULE, "edit"):
                return True
    return False
