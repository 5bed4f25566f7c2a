"""Annotations of a class that name the class itself.

`def link(self, other: llama.LlamaMLP)` in a class `LlamaMLP` names the parent, which exists already; in the flat file
the name is the class's own, which does not exist before its body has run.  A quoted annotation says the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


def quote_own_name(text: str, name: str) -> str:
    """The class statement `text` with each unquoted annotation that reads `name` put in quotes.

    Annotations with quotes of their own, or over several lines, stay as they are.
    """
    if text.count(name) < 2:
        return text
    lines = text.split("\n")
    found = [node for node in _annotations(ast.parse(text)) if _reads(node, name)]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1].encode()
        written = line[node.col_offset : node.end_col_offset].decode()
        if node.end_lineno == node.lineno and not set(written) & {'"', "'"}:
            quoted = f'"{written}"'.encode()
            lines[node.lineno - 1] = (
                line[: node.col_offset] + quoted + line[node.end_col_offset :]
            ).decode()
    return "\n".join(lines)


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation)
            ):
                yield annotation
            case (
                ast.FunctionDef(returns=ast.expr() as returns)
                | ast.AsyncFunctionDef(returns=ast.expr() as returns)
            ):
                yield returns
            case _:
                pass


def _reads(annotation: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(annotation))
