"""Statements at the top level that bind no name: registrations, settings, checks.

fork                                   declaration
ATTENTION["mine"] = attend             ATTENTION["mine"] = attend
"""

from __future__ import annotations

import ast

from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.align.file import File, defined_names
from patchgen.syntax.same import plain_text


def bare_statements(file: File) -> list[ast.stmt]:
    """The statements of `file` that define and import nothing, in order."""
    return [node for node in file.tree.body if not defined_names(node) and not _is_idle(node)]


def lost_statements(forked: ForkedModel, output: File) -> tuple[ast.stmt, ...]:
    """The statements that the fork added to the parent's and that the output does not run."""
    files = (forked.parent, output)
    known = {plain_text(node) for file in files for node in bare_statements(file)}
    return tuple(node for node in bare_statements(forked.fork) if plain_text(node) not in known)


def _is_idle(node: ast.stmt) -> bool:
    """Whether a statement only imports or binds names, or is a string or a number."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        stored = [inner for target in node.targets for inner in ast.walk(target)]
        return all(isinstance(one, ast.Name | ast.Tuple | ast.expr_context) for one in stored)
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node))
