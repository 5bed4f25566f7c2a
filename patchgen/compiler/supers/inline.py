"""Whether a parent's method may stand, statement by statement, where the child calls it; and then its text.

It may where nobody can tell the difference: the call is a statement of its own, or the last `return`; the arguments
arrive under the parameters' names; no local name of one is a name of the other.  Otherwise the method is hoisted.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.fragment import Fragment
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.classes.suite import find_colon, indent_of, owns_lines, reindent, suite_text
from patchgen.compiler.supers.inline_safety import Site
from patchgen.compiler.supers.supercall import SuperUse
from patchgen.syntax.blocks import first_line
from patchgen.syntax.scopes import FunctionNode


@dataclass(frozen=True, slots=True)
class Inlined:
    """Lines, with `count` statements, that take the place of the lines `first` to `last` of a method."""

    first: int
    last: int
    text: str
    count: int


def find_call_site(method: FunctionNode, use: SuperUse, code: Fragment) -> Site | None:
    """Where `use` stands, if the whole of a statement at the top of the method's body is this call."""
    if isinstance(method, ast.Lambda) or use.call is None or use.nested or method.name != use.name:
        return None
    for number, statement in enumerate(method.body):
        match statement:
            case ast.Expr(value=value) if value is use.call:
                site = Site(method, number, False, use.call)
            case ast.Return(value=value) if value is use.call and number == len(method.body) - 1:
                site = Site(method, number, True, use.call)
            case _:
                continue
        return site if owns_lines(code, method.body, number, number + 1) else None
    return None


def inline_call(
    site: Site, child: Statement, parent: Statement, bound: Sequence[tuple[str, str]]
) -> Inlined:
    """`parent`, a method, written out in place of the call, below the lines that bind its parameters."""
    function = parent.node
    assert isinstance(function, ast.FunctionDef)
    body = _body(function)
    if not site.returned and body and isinstance(body[-1], ast.Return):
        body = body[:-1]
    code = child.fragment
    first, last = first_line(site.statement), site.statement.end_lineno or 0
    indent = indent_of(code.lines[first - 1])
    comment = _trailing_comment(code, site.statement)
    text = f"{indent}{comment}\n" if comment else ""
    text += "".join(f"{indent}{name} = {value}\n" for name, value in bound)
    if body:
        written, old = suite_text(parent.fragment, body, _above(parent.fragment, function))
        text += reindent(written, old, indent)
    count = len(bound) + len(body)
    if not count and len(site.method.body) == 1:
        text, count = f"{text}{indent}pass\n", 1
    return Inlined(first, last, text, count)


def _body(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of `function` less its docstring and placeholders."""
    body = (
        function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    )
    return [] if all(is_placeholder(node) for node in body) else body


def is_placeholder(node: ast.stmt) -> bool:
    """Whether `node` is `pass` or `...`."""
    is_dots = (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and node.value.value is ...
    )
    return isinstance(node, ast.Pass) or is_dots


def _above(code: Fragment, function: ast.FunctionDef) -> int:
    """The last line of the signature, or of the docstring below it."""
    if ast.get_docstring(function, clean=False) is not None:
        return function.body[0].end_lineno or 0
    return find_colon(code, function.lineno, code.column(function.lineno, function.col_offset))[0]


def _trailing_comment(code: Fragment, statement: ast.stmt) -> str:
    line = code.lines[(statement.end_lineno or 1) - 1]
    rest = line[code.column(statement.end_lineno or 1, statement.end_col_offset or 0) :].strip()
    return rest if rest.startswith("#") else ""
