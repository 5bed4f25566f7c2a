"""Build the tree that a method is meant to have after its edits.

In: a method, and what stands at the matches afterwards.  Out: the tree, built from the nodes of
both sides.  What is written in the end is parsed and compared with it.

    x * gate, with gate -> a + b        x * (a + b)     # not the tree of `x * a + b`
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchgen.compiler.edits import pattern
from patchgen.compiler.edits.signature import Changes, change_arguments
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.trees import Function, walk

_NewRun = tuple[int, int, list[ast.stmt]]  # statements for those from one number to another


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands at `match` afterwards: the statements of `part`, which is a `with` of `code`.

    With "before" or "after" as the `word`, they stand there beside what matched.
    """

    match: pattern.Match
    code: Fragment
    part: ast.With
    word: str

    @property
    def deletes(self) -> bool:
        """Whether it is `pass`, which leaves nothing of what was matched."""
        return len(self.part.body) == 1 and isinstance(self.part.body[0], ast.Pass)

    @property
    def expression(self) -> ast.expr | None:
        """The expression that stands there, if it is nothing else."""
        match self.part.body:
            case [ast.Expr(value=value)]:
                return value
        return None

    def sites(self) -> Iterator[ast.Name]:
        """The holes in the new code; one of which the pattern bound nothing is a name."""
        for node in walk(self.part):
            if isinstance(node, ast.Name) and self.match.bound.holes.get(node.id) is not None:
                yield node


@dataclass(frozen=True, slots=True)
class Replaced:
    """A method with its replacements; `origins`: what each node of `tree`, by its id, came from."""

    text: str
    tree: Function
    origins: Mapping[int, ast.AST]


def build_meant(
    method: Fragment, changes: Sequence[Replacement], signature: Changes
) -> tuple[Function, dict[int, ast.AST]]:
    """The tree of the method after `changes`, and the node that each copied node was."""
    copies: dict[int, ast.AST] = {}
    places: dict[int, ast.AST] = {}
    runs: dict[int, list[_NewRun]] = {}
    (node,) = method.nodes
    assert isinstance(node, Function)
    if signature:
        places[id(node.args)] = change_arguments(node.args, signature, method, copies)
    for change in changes:
        bound = change.match.bound
        new = change.part.body
        holes: dict[int, ast.AST] = {}
        for site in change.sites():
            value = bound.holes[site.id]
            assert value is not None
            holes[id(site)] = value
        dots: dict[int, list[_NewRun]] = {}
        if bound.run:
            for suite in pattern.suites(change.part):
                rest = list(bound.run.nodes)
                at = [number for number, node in enumerate(suite) if pattern.is_ellipsis(node)]
                dots[id(suite)] = [(n, n + 1, rest) for n in at]
        build = _Build(holes, dots, bound.rest, copies)
        statements = [] if change.deletes else build.all(new)
        place = change.match.place
        if isinstance(place, pattern.Run):
            start = place.stop if change.word == "after" else place.start
            stop = place.start if change.word == "before" else place.stop
            # What is put behind a statement comes before what is put above the next.
            new_run = (start, stop, statements)
            of_suite = runs.setdefault(id(place.suite), [])
            of_suite.insert(0 if change.word == "after" else len(of_suite), new_run)
            continue
        (statement,) = statements
        assert isinstance(statement, ast.Expr)
        places[id(place)] = statement.value
    build = _Build(places, runs, None, copies)
    for suite in pattern.suites(node):
        only = suite[0] if id(suite) in runs and len(suite) == 1 else None
        # An `if` alone under `else:` that is written as `elif`.
        if isinstance(only, ast.If) and method.source(only).startswith("elif"):
            build.branches.add(id(suite))
    meant = build.node(node)
    assert isinstance(meant, Function)
    return meant, copies


class _Build:
    """Builds a tree with other nodes at some places; what holds none of them is not copied."""

    def __init__(
        self,
        places: Mapping[int, ast.AST],
        runs: Mapping[int, list[_NewRun]],
        rest: pattern.Rest | None,
        copies: dict[int, ast.AST],
    ) -> None:
        self.places = places
        self.runs = runs
        self.rest = rest
        self.copies = copies
        self.branches: set[int] = set()

    def node(self, node: Any) -> Any:
        """What becomes of `node`, or of what else a list of the tree holds."""
        if id(node) in self.places:
            return self.places[id(node)]
        if not isinstance(node, ast.AST):
            return node
        fields = dict(ast.iter_fields(node))
        changed: dict[str, Any] = {}
        for name, value in fields.items():
            if isinstance(value, ast.AST):
                changed[name] = self.node(value)
            elif isinstance(value, list):
                changed[name] = self.all(value)
        if self.rest and pattern.has_dots(node):
            every = [self.node(argument) for argument in order_arguments(node, self.rest)]
            changed["args"] = [each for each in every if not isinstance(each, ast.keyword)]
            changed["keywords"] = [each for each in every if isinstance(each, ast.keyword)]
        if all(fields[name] is value for name, value in changed.items()):
            return node
        copy = type(node)(**fields | changed)
        self.copies[id(copy)] = ast.copy_location(node, node)
        return copy

    def all(self, nodes: list[Any]) -> list[Any]:
        """What becomes of a list of nodes; a suite that would be empty is `pass`."""
        done: list[Any] = []
        at = 0
        runs = self.runs.get(id(nodes), ())
        for start, stop, new in sorted(runs, key=lambda run: run[:2]):
            done += map(self.node, nodes[at:start])
            done += new
            at = stop
        done += map(self.node, nodes[at:])
        if nodes and not done and id(nodes) not in self.branches:
            return [ast.Pass()]
        if len(done) == len(nodes) and all(map(operator.is_, done, nodes)):
            return nodes
        return done


def order_arguments(call: ast.Call, rest: pattern.Rest) -> list[pattern.Argument]:
    """The arguments of `call` with those of `rest` in the place of its `...`.

    Arguments by position come before those by name, and `**` is last, unless `rest` has arguments
    by name behind it.
    """

    def rank(argument: pattern.Argument) -> int:
        if not isinstance(argument, ast.keyword):
            return 0
        return 2 if argument.arg is None and stars_are_last else 1

    stars_are_last = True
    stars_are_last = list(rest.arguments) == sorted(rest.arguments, key=rank)
    every: list[pattern.Argument] = []
    for argument in pattern.arguments(call):
        every += rest.arguments if pattern.is_ellipsis(argument) else [argument]
    # The sort is stable, so that arguments of one kind keep their order.
    return sorted(every, key=rank)
