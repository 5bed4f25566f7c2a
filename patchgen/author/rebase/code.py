"""A member of a class, or a function, cut out of its file alone: its text and its statements.

All of a rebase works on this one value.  A merge takes three of them: the member of the old parent,
what the declaration makes of it, and the member of the new parent.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.align.file import Cut, File, with_cuts
from patchgen.author.align.suites import heads_of, key, own_names, suites_of
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names, parameters
from patchgen.syntax.same import only_function, plain_text, plain_texts, without_docstring
from patchgen.syntax.trees import Function

_CLASS = "class _:\n"


@dataclass(frozen=True)
class Clash:
    """A place that both sides changed, or where it is in doubt what the change means now.

    The texts are those of the old parent, of the declaration and of the new parent.
    """

    what: str
    base: str = ""
    ours: str = ""
    theirs: str = ""


def clash(what: str, *sides: ast.AST | Sequence[ast.AST] | None) -> Clash:
    """A clash that shows the code of each side."""
    texts = []
    for side in sides:
        nodes = [side] if isinstance(side, ast.AST) else side or []
        texts.append("\n".join(map(ast.unparse, nodes)))
    return Clash(what, *texts)


@dataclass(frozen=True, eq=False)
class Code:
    """Statements with their text; in a class, they stand below a first line `class _:`."""

    text: str
    nodes: tuple[ast.stmt, ...]

    @property
    def function(self) -> Function | None:
        """The one function that the member is, if it is one."""
        return only_function(self.nodes)

    @cached_property
    def says(self) -> list[str]:
        """What it says, without what only documents."""
        return plain_texts(self.nodes)

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def member(self) -> str:
        """The text without the first line, as it stands in a class or at the top of a file."""
        return self.text.removeprefix(_CLASS)

    def comments(self, node: ast.stmt) -> list[str]:
        """The lines of comments right above a statement."""
        first = top = first_line(node)
        while top > 1 and self._lines[top - 2].lstrip().startswith("#"):
            top -= 1
        return self.lines(top, first - 1)

    def lines(self, first: int, last: int) -> list[str]:
        """Lines `first` to `last`, both included, without their ends."""
        return self._lines[first - 1 : last]

    def changed(self, cuts: Iterable[Cut]) -> Code:
        """The code with other texts in places that do not overlap."""
        return read_code(with_cuts(self.text, cuts))


@dataclass(frozen=True)
class Three:
    """The old parent, the declaration on the old parent, and the new parent."""

    base: Code
    ours: Code
    theirs: Code

    @property
    def sides(self) -> tuple[Code, Code, Code]:
        """The three versions."""
        return self.base, self.ours, self.theirs

    @property
    def functions(self) -> tuple[Function, Function, Function] | None:
        """The three methods; None where one of them is no method."""
        base, ours, theirs = (side.function for side in self.sides)
        return (base, ours, theirs) if base and ours and theirs else None


def read_code(text: str) -> Code:
    """The code of a text, which begins with `class _:` if it stands in a class."""
    body = ast.parse(text).body
    if text.startswith(_CLASS) and isinstance(body[0], ast.ClassDef):
        body = body[0].body
    return Code(text, tuple(body))


def cut_out(file: File, nodes: Sequence[ast.stmt]) -> Code:
    """Statements of a file alone, with the comments between them."""
    lines = file.source.lines[first_line(nodes[0]) - 1 : nodes[-1].end_lineno]
    return in_place_of(nodes[0], "".join(lines))


def member_of(file: File, owner: str, name: str) -> Code | None:
    """A member that a file's own class has; without an owner, a function."""
    definition = file.definitions.get(owner or name)
    if definition is None or definition.kind != ("class" if owner else "def"):
        return None
    member = definition.members.get(name) if owner else definition
    return cut_out(file, member.nodes) if member is not None else None


def in_place_of(node: ast.stmt, text: str) -> Code:
    """The code of a text that stands where `node` stands: in a class, or at the top of a file."""
    return read_code((_CLASS if node.col_offset else "") + text)


# What a node stands in


def around(method: ast.AST, node: ast.AST) -> list[ast.AST]:
    """What a node of a method stands in, outermost first, and itself."""
    for inner in ast.iter_child_nodes(method):
        path = [] if inner is node else around(inner, node)
        if path or inner is node:
            return [inner, *path]
    return []


def beside(node: ast.AST, inner: ast.AST) -> list[str]:
    """What a node says beside one that is in it."""
    match node:
        case ast.Assign(value=value) if value is inner:
            others: list[ast.AST] = []
        case ast.Call(func=function) if function is not inner:
            others = [function]
        case ast.Call(func=ast.Attribute()):
            others = []
        case _:
            others = [child for child in ast.iter_child_nodes(node) if child is not inner]
    words = [type(node).__name__]
    for _, value in ast.iter_fields(node):
        if not isinstance(value, ast.AST | list):
            words.append(str(value))
    return [*words, *map(key, others)]


# Statements in order, and what gives a name its value


@dataclass(frozen=True, eq=False)
class Spot:
    """A simple statement, or the head of a compound one, in the order of the text.

    `heads` are what of the statement is not in its suites: a simple one is its own head.
    """

    node: ast.stmt
    heads: tuple[ast.AST, ...]
    text: str
    reads: frozenset[str]
    binds: frozenset[str]
    branches: tuple[tuple[int, int], ...] = ()

    def excludes(self, other: Spot) -> bool:
        """Whether the two stand in different branches of one `if`: one of them runs."""
        mine = dict(self.branches)
        return any(mine.get(node, branch) != branch for node, branch in other.branches)


Flow = tuple[Spot, ...]  # a method; the first spot is its head, which binds the parameters


def flow_of(function: Function) -> Flow:
    """The spots of a method, in the order of its text."""
    head = Spot(function, (), "parameter", frozenset(), frozenset(parameters(function)))
    return head, *_spots(without_docstring(function.body))


def binder(flow: Flow, name: str, number: int) -> Spot | None:
    """What gives `name` its value for the spot at `place`."""
    before = (spot for spot in flow[:number][::-1] if name in spot.binds)
    return next((spot for spot in before if not spot.excludes(flow[number])), None)


def _spots(suite: Sequence[ast.stmt], branches: tuple[tuple[int, int], ...] = ()) -> Iterator[Spot]:
    for node in suite:
        suites = [] if isinstance(node, Function | ast.ClassDef) else suites_of(node)
        heads = heads_of(node) if suites else [node]
        inside: list[ast.AST] = []
        for head in heads:
            inside += ast.walk(head)
        reads, stores = _names_in(inside)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.add(node.target.id)
        reads.difference_update(own_names(inside))
        if not suites:
            stores = set(bound_names([node]))
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                if handler.name:
                    stores.add(handler.name)
        texts = " ".join(map(plain_text, heads))
        text = f"{type(node).__name__} {texts}"
        yield Spot(node, tuple(heads), text, frozenset(reads), frozenset(stores), branches)
        for number, inner_suite in enumerate(suites):
            inner_branches = branches
            if isinstance(node, ast.If):
                inner_branches = (*branches, (id(node), number))
            yield from _spots(inner_suite, inner_branches)


def _names_in(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that nodes themselves read, and those that they store."""
    reads: set[str] = set()
    stores: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                reads.add(node.id)
            elif isinstance(node.ctx, ast.Store):
                stores.add(node.id)
    return reads, stores


# What gives a name its value, and whether two values are the same


def assigned(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """What a statement does with a value, such as the name that gets it, and the value."""
    match node:
        case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
            return type(node).__name__, value
        case ast.Assign(targets=targets, value=value):
            return "=".join(map(plain_text, targets)), value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return plain_text(target), value
        case ast.For(target=target, iter=value):
            return f"for {plain_text(target)}", value
        case ast.AugAssign(op=op, target=target, value=value):
            return f"{type(op).__name__} {plain_text(target)}", value
        case _:
            return None
