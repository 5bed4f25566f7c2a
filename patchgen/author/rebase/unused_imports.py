"""Take imports out of a modular file that only what was rewritten has needed."""

from __future__ import annotations

import ast
import re

from patchgen.syntax.bound import bound_by
from patchgen.syntax.same import is_docstring

_WORD = re.compile(r"\w+")


def without_unused_imports(text: str, before: ast.Module) -> str:
    """`text` without the imports that `before` used and that nothing uses any more.

    An import that was not used before is meant as it is.
    """
    tree = ast.parse(text)
    lines = text.split("\n")
    unused = _used(before) - _used(tree)
    for node in reversed(tree.body):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        kept = [alias for alias in node.names if bound_by(alias) not in unused]
        if len(kept) == len(node.names):
            continue
        node.names = kept
        first, last = node.lineno - 1, node.end_lineno or 0
        # Of the blank lines around a group of imports, those below stay.
        if not kept and first and not lines[first - 1].strip() and not lines[last].strip():
            first -= 1
        lines[first:last] = [ast.unparse(node)] if kept else []
    return "\n".join(lines)


def _used(tree: ast.Module) -> set[str]:
    """The names that code reads, those in strings such as annotations and `__all__` included."""
    found: set[str] = set()
    documenting = {
        id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and is_docstring(n)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                found.add(name)
            case ast.Constant(value=str(value)) if id(node) not in documenting:
                found.update(_WORD.findall(value))
    return found
