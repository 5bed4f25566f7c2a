"""Write a parent's method, statement by statement, where the child calls it.

That is possible where the call is a statement of its own, or the last `return`, and where
`inline_safety` finds that it changes nothing.  Otherwise the method is hoisted.

    # the parent's method: def __init__(self, config): self.size = config.size
    def __init__(self, config):         def __init__(self, config):
        super().__init__(config)            self.size = config.size
        self.extra = 1                      self.extra = 1
"""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.fragment import Fragment
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.classes.suite import find_colon, indent_of, owns_lines, reindent, suite_text
from patchgen.compiler.supers.inline_safety import Site
from patchgen.compiler.supers.supercall import SuperUse
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import FunctionNode


@dataclass(frozen=True, slots=True)
class Inlined:
    """The text, with `count` statements, that replaces the lines `first` to `last` of a method."""

    first: int
    last: int
    text: str
    count: int


def find_call_site(method: FunctionNode, use: SuperUse, code: Fragment) -> Site | None:
    """The statement at the top of the method's body that is nothing but the call of `use`."""
    if isinstance(method, ast.Lambda) or use.call is None:
        return None
    # A method that calls another one of the parent's runs statements of two methods.
    if use.nested or method.name != use.name:
        return None
    for number, statement in enumerate(method.body):
        if not isinstance(statement, ast.Expr | ast.Return) or statement.value is not use.call:
            continue
        is_returned = isinstance(statement, ast.Return)
        is_last = number == len(method.body) - 1
        # What stands below a `return` never runs, but would below the inlined statements.
        if is_returned and not is_last:
            continue
        # `super().__init__(); self.x = 1` shares its line, and cannot be replaced by lines.
        if not owns_lines(code, method.body, number, number + 1):
            return None
        return Site(method, number, is_returned, use.call)
    return None


def inline_call(
    site: Site, child: Statement, parent: Statement, bound: Sequence[tuple[str, str]]
) -> Inlined:
    """Replace the call by the body of `parent`, below the assignments of its parameters."""
    function = parent.node
    assert isinstance(function, ast.FunctionDef)
    body = _read_body(function)
    ends_with_return = bool(body) and isinstance(body[-1], ast.Return)
    # `return None` at the end: the child's statements follow.
    if ends_with_return and not site.returned:
        body = body[:-1]
    code = child.fragment
    first, last = first_line(site.statement), site.statement.end_lineno or 0
    indent = indent_of(code.lines[first - 1])

    assigned = "".join(f"{indent}{name} = {value}\n" for name, value in bound)
    # A comment beside or inside the call gets a line of its own.
    comments = [one for one in _read_comments(code, site.statement) if one not in assigned]
    text = "".join(f"{indent}{comment}\n" for comment in comments) + assigned
    if body:
        written, old = suite_text(parent.fragment, body, _line_above(parent.fragment, function))
        text += reindent(written, old, indent)
    count = len(bound) + len(body)
    is_only_statement = len(site.method.body) == 1
    # The method needs a statement.
    if not count and is_only_statement:
        text, count = f"{text}{indent}pass\n", 1
    return Inlined(first, last, text, count)


def _read_body(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of `function` without its docstring; none where all are placeholders."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if all(is_placeholder(node) for node in body):
        return []
    return body


def is_placeholder(node: ast.stmt) -> bool:
    """Whether `node` is `pass` or `...`."""
    match node:
        case ast.Pass():
            return True
        case ast.Expr(value=ast.Constant(value=value)):
            return value is ...
        case _:
            return False


def _line_above(code: Fragment, function: ast.FunctionDef) -> int:
    """The last line of the signature, or of the docstring below it."""
    if ast.get_docstring(function, clean=False) is not None:
        return function.body[0].end_lineno or 0
    column = code.column(function.lineno, function.col_offset)
    return find_colon(code, function.lineno, column)[0]


def _read_comments(code: Fragment, statement: ast.stmt) -> list[str]:
    """The comments on the lines of a statement that owns them."""
    lines = code.lines[first_line(statement) - 1 : statement.end_lineno]
    if not any("#" in line for line in lines):
        return []
    text = textwrap.dedent("".join(lines))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
