"""Which statement gives a name its value where another statement reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.align.suites import heads_of, suites_of
from patchgen.syntax.bound import bound_names
from patchgen.syntax.same import Function, plain_text, without_docstring


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


@dataclass(frozen=True)
class Flow:
    """One version of a method as spots in order."""

    function: Function
    spots: tuple[Spot, ...]

    def binder(self, name: str, place: int) -> Spot | str | None:
        """What gives `name` its value for the spot at `place`: a spot, "parameter", or nothing."""
        for spot in reversed(self.spots[:place]):
            if name in spot.binds and not (
                place < len(self.spots) and spot.excludes(self.spots[place])
            ):
                return spot
        return "parameter" if name in parameters_of(self.function) else None


def flow_of(function: Function) -> Flow:
    """The spots of a method, in the order of its text."""
    return Flow(function, tuple(_spots(without_docstring(function.body))))


def _spots(suite: Sequence[ast.stmt], branches: tuple[tuple[int, int], ...] = ()) -> Iterator[Spot]:
    for node in suite:
        inner = [] if isinstance(node, Function | ast.ClassDef) else suites_of(node)
        heads = heads_of(node) if inner else [node]
        reads = {
            n.id
            for head in heads
            for n in ast.walk(head)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.add(node.target.id)
        binds = frozenset(_bound(node, heads if inner else [node]))
        text = " ".join(map(plain_text, heads)) if inner else plain_text(node)
        own = set(_comprehended(heads))
        yield Spot(
            node,
            tuple(heads),
            f"{type(node).__name__} {text}",
            frozenset(reads - own),
            binds,
            branches,
        )
        for number, one in enumerate(inner):
            own_branch = ((id(node), number),) if isinstance(node, ast.If) else ()
            yield from _spots(one, (*branches, *own_branch))


def _comprehended(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names that comprehensions and lambdas have for themselves."""
    for node in (inner for one in nodes for inner in ast.walk(one)):
        if isinstance(node, ast.comprehension):
            yield from (n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        if isinstance(node, ast.Lambda):
            yield from (a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))


def _bound(node: ast.stmt, heads: Sequence[ast.AST]) -> Iterator[str]:
    if not suites_of(node) or isinstance(node, Function | ast.ClassDef):
        yield from bound_names([node])
        return
    for head in heads:
        for inner in ast.walk(head):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id
    if isinstance(node, ast.Try):
        yield from (h.name for h in node.handlers if h.name)


def parameters_of(function: Function) -> set[str]:
    """The names of all parameters."""
    return {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
