"""Find statements at the top of a modular file that are in no output.

torch.set_default_dtype(torch.float32)        # left out without a message
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.syntax.text import parse
from patchgen.upstream.lint.case import Case
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import short


def dropped_statements(case: Case) -> Iterator[Problem]:
    """Everything but docstrings, imports, definitions and assignments to a name, an item or an
    attribute of one.
    """
    for statement in parse(case.source).body:
        if not _is_kept(statement):
            what = f"`{short(statement)}` is in no output"
            yield finding(
                "PG708",
                case.source.at_node(statement),
                what,
                "assign to a plain name, or do it in a function",
            )


def _is_kept(node: ast.stmt) -> bool:
    """Whether the converter carries a statement of this form."""
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.FunctionDef()
            | ast.AsyncFunctionDef()
            | ast.ClassDef()
        ):
            return True
        case ast.Assign(targets=[ast.Name()]):
            return True
        case ast.Assign(targets=[ast.Subscript(ast.Name()) | ast.Attribute(ast.Name()), *_]):
            return True
        case ast.Expr(ast.Constant()) | ast.Pass():
            return True
        # `if is_torch_available():` over imports is carried as a whole.
        case ast.If(body=body):
            return any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in body)
    return False
