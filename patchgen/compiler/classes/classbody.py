"""A class of the chain taken apart: its head, and its body as a lossless sequence of statements.

In: a rewritten block of the plan.  Out: a `ClassBody`, whose statements know the names that they
bind and where they came from.  `members` and `classscope` decide what the statements mean for each
other.

    @auto_docstring                     a decorator
    class Toy(nn.Module):  # small      head and comment
        "A toy."                        docstring
        size = 3                        statements
    # behind                            tail: comments below the last statement
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.classes.fragment import INDENT, Fragment, Positioned, split_lines
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.classes.suite import find_colon, indent_of, owns_lines, reindent
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location
from patchgen.syntax.trees import called_function, parse_once


@dataclass(frozen=True, slots=True)
class Decorator:
    """One decorator of a class: its lines, the name that is called, and the line it begins on."""

    text: str
    name: str
    line: int

    @property
    def short_name(self) -> str:
        """What it is called, whatever module it is reached by."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class ClassBody:
    """The parts of a class statement.

    `head` is `class Name...:`, and `comment` what follows it on its line.
    """

    block: RewrittenBlock
    own_name: str
    decorators: tuple[Decorator, ...]
    head: str
    comment: str
    node: ast.ClassDef
    docstring: Statement | None
    statements: tuple[Statement, ...]
    tail: str

    def at(self, statement: Statement, node: ast.AST | None = None) -> Location:
        """Where `node` of `statement`, or the statement itself, stands in its file."""
        code = statement.fragment
        # In a changed text, the positions of nodes are not those of the file.
        if statement.changed or not isinstance(node, Positioned):
            return self.block.at(statement.line, len(indent_of(code.lines[0])))
        return self.block.at(
            statement.line + node.lineno - 1, code.column(node.lineno, node.col_offset)
        )

    def at_head(self) -> Location:
        """Where the class statement stands in its file."""
        return self.block.at(self.node.lineno, self.node.col_offset)

    def binders(self, name: str) -> tuple[Statement, ...]:
        """The statements that bind `name`, in order."""
        return tuple(statement for statement in self.statements if name in statement.names)

    @property
    def names(self) -> frozenset[str]:
        """Every name that the body binds, annotates or deletes."""
        found: set[str] = set()
        for statement in self.statements:
            found.update(statement.names)
        return frozenset(found)

    @property
    def deleted(self) -> frozenset[str]:
        """The names that are gone again at the end of the body."""
        # A later statement may bind a deleted name again.
        last: dict[str, ast.stmt] = {}
        for statement in self.statements:
            last.update(dict.fromkeys(statement.names, statement.node))
        return frozenset(name for name, node in last.items() if isinstance(node, ast.Delete))

    @property
    def members(self) -> frozenset[str]:
        """The names that the class may have as attributes of its own."""
        bound: set[str] = set()
        for statement in self.statements:
            node = statement.node
            # `x: int` alone makes no attribute.
            if isinstance(node, ast.AnnAssign) and node.value is None:
                continue
            bound.update(statement.names)
        return frozenset(bound - self.deleted)


def read_class_body(block: RewrittenBlock, own_name: str, origin: int) -> ClassBody:
    """Read the class statement of `block`; its statements get an indentation of four spaces."""
    # The last statement of a file may lack its line end.
    text = block.text if block.text.endswith("\n") else f"{block.text}\n"
    tree = parse_once(text)
    node = tree.body[0]
    assert isinstance(node, ast.ClassDef)
    code = Fragment(text, (node,), split_lines(text))
    head, comment, head_end = _read_head(code, node)
    statements = list(_read_statements(code, node, head_end, origin))
    # The docstring is no member: the nearest class's own counts.
    docstring = None
    if ast.get_docstring(node, clean=False) is not None:
        docstring, *statements = statements
    tail = _read_tail(code, node, head_end)
    return ClassBody(
        block=block,
        own_name=own_name,
        decorators=_read_decorators(code, node),
        head=head,
        comment=comment,
        node=node,
        docstring=docstring,
        statements=tuple(statements),
        tail=tail,
    )


def _read_head(code: Fragment, node: ast.ClassDef) -> tuple[str, str, int]:
    """The text from `class` to its colon, a comment behind it, and the line that it ends on."""
    # `ast` does not say where the head ends.
    line, column = find_colon(code, node.lineno, code.column(node.lineno, node.col_offset))
    start, line_start = code.offset(node.lineno, node.col_offset), code.line_span(line, line)[0]
    rest = code.lines[line - 1][column:]
    comment = rest.rstrip() if rest.lstrip().startswith("#") else ""
    return code.text[start : line_start + column], comment, line


def _read_decorators(code: Fragment, node: ast.ClassDef) -> tuple[Decorator, ...]:
    """Each decorator with the comments above it, in the order of the text."""
    found = []
    for number, decorator in enumerate(node.decorator_list):
        # Comments between decorators belong to the one below them.
        above = node.decorator_list[number - 1].end_lineno or 0 if number else 0
        name = ast.unparse(called_function(decorator))
        start, end = code.line_span(above + 1, decorator.end_lineno or decorator.lineno)
        found.append(Decorator(code.text[start:end], name, decorator.lineno))
    return tuple(found)


def _read_statements(
    code: Fragment, node: ast.ClassDef, head_end: int, origin: int
) -> Iterator[Statement]:
    """The statements in order, each with lines of its own and four spaces."""
    body = node.body
    indent = ""
    if first_line(body[0]) > head_end:
        indent = indent_of(code.lines[first_line(body[0]) - 1])
    end = head_end
    for number, child in enumerate(body):
        names = tuple(dict.fromkeys(bound_names([child])))
        first, last = first_line(child), child.end_lineno or child.lineno
        if first <= head_end or not owns_lines(code, body, number, number + 1):
            # `x = 1; y = 2` and `class A: x = 1`: each statement gets a line of its own.
            text = f"{INDENT}{code.source(child)}\n"
            yield Statement("", text, names, origin, number, first, changed=True)
            end = last
            continue
        upper = len(code.lines) + 1
        if number + 1 < len(body):
            upper = first_line(body[number + 1])
        last = _include_comments(code, last, upper, indent)
        leading = "".join(code.lines[end : first - 1]) if first > end else ""
        text = "".join(code.lines[first - 1 : last])
        if indent != INDENT:
            leading, text = reindent(leading, indent, INDENT), reindent(text, indent, INDENT)
        yield Statement(leading, text, names, origin, number, first, changed=indent != INDENT)
        end = last


def _read_tail(code: Fragment, node: ast.ClassDef, head_end: int) -> str:
    """The comments below the last statement that stand as deep as it, or less."""
    first, last = first_line(node.body[-1]), node.body[-1].end_lineno or 0
    last = max(last, head_end)
    # `class A: pass` has no indentation of its own.
    indent = INDENT
    if first > head_end:
        indent = indent_of(code.lines[first_line(node.body[0]) - 1])
        last = _include_comments(code, last, len(code.lines) + 1, indent)
    return reindent("".join(code.lines[last:]), indent, INDENT)


def _include_comments(code: Fragment, last: int, upper: int, indent: str) -> int:
    """The last line of a statement, with the deeper indented comments below it."""
    found = last
    for line in range(last + 1, upper):
        text = code.lines[line - 1]
        if text.lstrip().startswith("#") and len(indent_of(text)) > len(indent):
            found = line
        elif text.strip():
            break
    return found
