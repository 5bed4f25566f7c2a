"""Find statements that a modular file must not have at its top level, before anything is planned.

if FAST:
    class LlamaMLP(llama.LlamaMLP): ...     # PG111: declare it at the top level
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.plan.bindings import Bindings
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Problem


def find_unsound(layer: ModuleIndex, bindings: Bindings) -> tuple[Problem, ...]:
    """Statements of a modular file that the flat file would lose or change."""
    return (
        *_conditional_classes(layer, bindings),
        *_imports_in_company(layer),
        *_declared_twice(layer),
    )


def _conditional_classes(layer: ModuleIndex, bindings: Bindings) -> Iterator[Problem]:
    """Classes of a modular file that derive from a parent, but under `if` or `try`."""
    for block in layer.blocks:
        if block.kind != "guard":
            continue
        nodes = ast.walk(ast.parse(block.text))
        for node in (each for each in nodes if isinstance(each, ast.ClassDef)):
            for base in node.bases:
                at = layer.source.at(block.first + base.lineno - 1, base.col_offset)
                symbol = bindings.dotted(layer, ast.unparse(base), at)
                # A class that derives from nothing that is merged may stand anywhere.
                if symbol is None or not bindings.flatten_scope.flattens(symbol.module):
                    continue
                what = f"class {node.name} derives from {symbol} under a condition"
                yield Problem(at, "PG111", what, "declare it at the top level of the file")


def _imports_in_company(layer: ModuleIndex) -> Iterator[Problem]:
    """Lines that import and do something else: the import goes, the rest would have to stay."""
    for block in layer.blocks:
        if block.kind == "other" and block.imports:
            at = layer.source.at(block.first)
            what = "an import shares its line with another statement"
            yield Problem(at, "PG122", what, "write it on its own line")


def _declared_twice(layer: ModuleIndex) -> Iterator[Problem]:
    """Two classes or functions of one name: the first would be lost silently."""
    first: dict[str, int] = {}
    for block in layer.blocks:
        if block.kind not in ("class", "def"):
            continue
        if first.setdefault(block.name, block.first) != block.first:
            what = f"{block.name} is declared here and on line {first[block.name]}"
            yield Problem(layer.source.at(block.first), "PG123", what, "keep one of them")
