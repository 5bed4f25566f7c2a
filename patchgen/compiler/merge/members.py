"""A class of the chain taken apart: its head, and its statements with the names that they bind.

In: a rewritten block of the plan.  Out: a `ClassBody`.  `override_members` puts the
members of a child in the places of those of its parent.

    @auto_docstring                     a decorator
    class Toy(nn.Module):  # small      head and comment
        "A toy."                        docstring
        # how wide it is                `leading` of the statement below
        size = 3                        a statement, which binds `size`
    # behind                            tail: comments below the last statement
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.merge.text import (
    INDENT,
    Splice,
    find_colon,
    indent_of,
    owns_lines,
    reindent,
    splice,
)
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location
from patchgen.syntax.fragments import Fragment, parse_fragment, split_lines
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import Function, Positioned, called_function, parse_once


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a class body.

    `text` is whole lines, `leading` the blank lines and comments above them.  `origin` is the place
    in the chain of the class that it stood in, `number` its place in that body, and `line` the line
    of the block on which `text` begins.  `changed`: the text is not that of the block any more, so
    that only `line` is sure.  `removes`: it removes the inherited member.  `is_copy`: it is the
    copy of a parent's member that `super()` calls, under a private name.
    """

    leading: str
    text: str
    names: tuple[str, ...]
    origin: int
    number: int
    line: int
    changed: bool = False
    removes: bool = False
    is_copy: bool = False

    @property
    def fragment(self) -> Fragment:
        """The text with its syntax tree; it is parsed once."""
        # Kept by the text, so that a statement stays a plain value that is cheap to copy.
        return parse_fragment(self.text)

    @property
    def node(self) -> ast.stmt:
        return self.fragment.nodes[0]

    def with_text(self, text: str) -> Statement:
        """The same statement with another text; equal texts keep their exact positions."""
        return self if text == self.text else replace(self, text=text, changed=True)

    @property
    def is_bare(self) -> bool:
        """Whether it is `x: T`, which gives the class no attribute."""
        return isinstance(self.node, ast.AnnAssign) and self.node.value is None

    @property
    def is_attribute(self) -> bool:
        return isinstance(self.node, ast.Assign | ast.AnnAssign)

    @property
    def reads(self) -> frozenset[str]:
        """The names that it reads when the class body runs."""
        return _read_names(self.text)

    @property
    def is_placeholder(self) -> bool:
        return is_placeholder(self.node)

    @property
    def key(self) -> tuple[int, int]:
        """Identifies it among the statements of the chain, whatever its text becomes."""
        return self.origin, self.number


def is_placeholder(node: ast.stmt) -> bool:
    """Whether `node` is `pass` or `...`."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.Pass) or (isinstance(value, ast.Constant) and value.value is ...)


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


@dataclass(frozen=True)
class ClassBody:
    """The parts of a class statement; `comment` follows `head`, `class Name...:`, on its line."""

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

    def binders(self, name: str) -> tuple[Statement, ...]:
        """The statements that bind `name`, in order."""
        return self.by_name.get(name, ())

    @functools.cached_property
    def by_name(self) -> dict[str, tuple[Statement, ...]]:
        """The statements that bind each name, in order."""
        return group_by_name(self.statements)

    @property
    def names(self) -> frozenset[str]:
        """Every name that the body binds or annotates."""
        return frozenset(self.by_name)

    @functools.cached_property
    def members(self) -> frozenset[str]:
        """The names that the class has as attributes of its own."""
        return frozenset(name for name, group in self.by_name.items() if not _is_bare(group))


def group_by_name(statements: Sequence[Statement]) -> dict[str, tuple[Statement, ...]]:
    """The statements that bind each name: a property stands with its setter."""
    groups: dict[str, list[Statement]] = {}
    for statement in statements:
        for name in statement.names:
            groups.setdefault(name, []).append(statement)
    return {name: tuple(group) for name, group in groups.items()}


def _is_bare(group: Sequence[Statement]) -> bool:
    return all(statement.is_bare for statement in group)


# Reading a class


def read_class_body(block: RewrittenBlock, own_name: str, origin: int) -> ClassBody:
    """Read the class statement of `block`; its statements get an indentation of four spaces."""
    # The last statement of a file may lack its line end.
    text = block.text if block.text.endswith("\n") else f"{block.text}\n"
    node = parse_once(text).body[0]
    assert isinstance(node, ast.ClassDef)
    code = Fragment(text, (node,), split_lines(text))
    # `ast` does not say where the head ends.
    head_end, column = find_colon(code, node.lineno, code.column(node.lineno, node.col_offset))
    start = code.offset(node.lineno, node.col_offset)
    line_start = code.line_span(1, head_end - 1)[1]
    rest = code.lines[head_end - 1][column:]
    statements = list(_read_statements(code, node, head_end, origin))
    # The docstring is no member: the nearest class's own counts.
    docstring = None
    if ast.get_docstring(node, clean=False) is not None:
        docstring, *statements = statements
    return ClassBody(
        block=block,
        own_name=own_name,
        decorators=tuple(_read_decorators(code, node)),
        head=text[start : line_start + column],
        comment=rest.rstrip() if rest.lstrip().startswith("#") else "",
        node=node,
        docstring=docstring,
        statements=tuple(statements),
        tail=_read_tail(code, node, head_end),
    )


def _read_decorators(code: Fragment, node: ast.ClassDef) -> Iterator[Decorator]:
    above = 0
    for decorator in node.decorator_list:
        # Comments between decorators belong to the one below them.
        last = decorator.end_lineno or decorator.lineno
        start, end = code.line_span(above + 1, last)
        name = ast.unparse(called_function(decorator))
        yield Decorator(code.text[start:end], name, decorator.lineno)
        above = last


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
        first = first_line(child)
        last = child.end_lineno or child.lineno
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
    statement = node.body[-1]
    end = statement.end_lineno or 0
    last = max(end, head_end)
    # `class A: pass` has no indentation of its own.
    indent = INDENT
    if first_line(statement) > head_end:
        first = first_line(node.body[0])
        indent = indent_of(code.lines[first - 1])
        last = _include_comments(code, last, len(code.lines) + 1, indent)
    return reindent("".join(code.lines[last:]), indent, INDENT)


def _include_comments(code: Fragment, last: int, upper: int, indent: str) -> int:
    """The last line of a statement, with the deeper indented comments below it."""
    included = last
    for line in range(last + 1, upper):
        text = code.lines[line - 1]
        if text.lstrip().startswith("#") and len(indent_of(text)) > len(indent):
            included = line
        elif text.strip():
            break
    return included


# Laying a child over its parent


def override_members(
    child: Sequence[Statement], parent: Sequence[Statement]
) -> tuple[Statement, ...]:
    """The class body of the parent with the child's members in the places of those they replace.

    New attributes come below the parent's attributes, new methods below its methods.

        class Parent:               class Child(Parent):        class Flat:
            size = 1                    depth = 2                   size = 3
            def f(self): ...            size = 3                    depth = 2
                                        def g(self): ...            def f(self): ...
                                                                    def g(self): ...
    """
    parents = group_by_name(parent)
    children = group_by_name(child)
    replaced = set(children) & set(parents)
    # `x: T` leaves the parent's value of `x` as it is.
    replaced -= {n for n in replaced if _is_bare(children[n]) and not _is_bare(parents[n])}
    # `forward = run` in the place of the parent's `forward` would stand above a new `run`.
    new = set(children) - replaced
    low = set()
    for name in replaced:
        if any(isinstance(s.node, ast.Assign) and s.reads & new for s in children[name]):
            low.add(name)
    order: list[Statement] = []
    waiting = set(replaced)
    for statement in parent:
        names = [name for name in statement.names if name in waiting]
        waiting.difference_update(names)
        group: dict[Statement, None] = {}
        for name in names:
            if name not in low:
                group |= dict.fromkeys(children[name])
        # Of `a = b = 1`, the child may replace one: its own stands below then.
        if not replaced.issuperset(statement.names) or not statement.names:
            order += [statement, *group]
        elif group:
            order += _take_leading(statement, tuple(group))
    definitions = [statement for statement in child if isinstance(statement.node, Function)]
    methods = set[str]().union(*(statement.names for statement in definitions))
    attributes: list[Statement] = []
    below: list[Statement] = []
    for statement in child:
        if not (replaced - low).isdisjoint(statement.names):
            continue
        # `f = property(g)` stays below the method `g`.
        if statement.is_attribute and statement.reads.isdisjoint(methods):
            attributes.append(statement)
        else:
            below.append(statement)
    end = max((number for number, s in enumerate(order, 1) if s.is_attribute), default=0)
    return (*order[:end], *attributes, *order[end:], *below)


@functools.lru_cache(maxsize=4096)  # every pass asks for every statement of the chain again
def _read_names(text: str) -> frozenset[str]:
    """The names that a statement reads when the class body runs."""
    (node,) = parse_fragment(text).nodes
    if isinstance(node, Function):
        # What functions read, they find when they are called.
        node = copy.copy(node)
        node.body = []
    return frozenset(read.name for read in references([node]) if read.eager and not read.quoted)


def _take_leading(old: Statement, group: Sequence[Statement]) -> Iterator[Statement]:
    """`group` in the place of `old`: its own comments, or else the blank lines that stood there."""
    first, *others = group
    # A comment of its own keeps its place above the statement.
    if not first.leading.strip():
        blank = "".join(line for line in split_lines(old.leading) if not line.strip())
        first = replace(first, leading=blank)
    yield first if others else _take_annotation(old, first)
    yield from others


def _take_annotation(old: Statement, new: Statement) -> Statement:
    """`x = v` over `x: T = u` is `x: T = v`: annotations are inherited."""
    match new.node, old.node:
        case ast.Assign(targets=[ast.Name() as target]), ast.AnnAssign(annotation=annotation):
            end = new.fragment.span(target)[1]
            written = Splice(end, end, f": {old.fragment.source(annotation)}")
            return new.with_text(splice(new.text, [written]))
        case _:
            return new
