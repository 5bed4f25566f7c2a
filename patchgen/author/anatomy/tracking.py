"""The state of an evaluation: what is known at a statement, and what was found before it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeVar

from patchgen.author.anatomy.code import names, stored, walk
from patchgen.author.anatomy.module import Class
from patchgen.author.anatomy.scores import Context, Factor, Term, Unplaced, Value
from patchgen.author.anatomy.shapes import without_scores

_Node = TypeVar("_Node", bound=ast.AST)


@dataclass
class Tracking:
    """The tracked names of `method`, and what was found, each with the index of its statement.

    `env` has the value of each tracked name; names in `opaque` are not tracked.  `culprits` are
    names that should not have been tracked, each with the statement that shows it.  The statement
    `index` runs under `condition`.  The findings hold if no condition in `unless` is true; only an
    evaluation that is `leaving` collects such conditions.
    """

    owner: Class
    method: ast.FunctionDef
    opaque: frozenset[str] = frozenset()
    env: dict[str, Value] = field(default_factory=dict)
    culprits: dict[str, int] = field(default_factory=dict)
    kept: list[tuple[int, ast.stmt]] = field(default_factory=list)
    contexts: list[tuple[Context, int]] = field(default_factory=list)
    uses: list[tuple[int, ast.AST, str]] = field(default_factory=list)
    failures: list[Unplaced] = field(default_factory=list)
    recorded: list[tuple[ast.expr, int]] = field(default_factory=list)
    numbers: frozenset[str] = frozenset()
    index: int = 0
    softmaxes: int = 0
    condition: ast.expr | None = None
    leaving: bool = False
    unless: list[tuple[ast.expr, int]] = field(default_factory=list)

    def use(self, node: ast.AST, why: str) -> None:
        """Record that a tracked value is used in a way that no attention uses it."""
        self.uses.append((self.index, node, why))

    def blame(self, node: ast.AST) -> None:
        """Record that the tracked names in `node` should not have been tracked."""
        for name in names(node) & self.env.keys():
            self.culprits.setdefault(name, self.index)

    def given(self, node: ast.expr) -> ast.expr:
        """Record that `node` becomes an argument of SDPA, with its value at this statement."""
        self.recorded.append((node, self.index))
        return node

    def plain(self, node: _Node) -> _Node:
        """`node` without reads of the shape and dtype of scores."""
        return without_scores(node, self.env)

    def rest(self, node: ast.stmt) -> list[ast.stmt]:
        """`node` as it remains; unchanged if it computes a context, to find that again."""
        places = {id(context.node) for context, _ in self.contexts}
        if any(id(inner) in places for inner in ast.walk(node)):
            return [node]
        return [self.plain(node)]

    def made(self, node: ast.expr) -> list[ast.expr]:
        """Every value that the method assigns to the name `node`."""
        if not isinstance(node, ast.Name):
            return []
        return [one.value for one in walk(self.method, ast.Assign) if stored(one) == {node.id}]

    def is_same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether both have the same value; names that are bound once stand for their value."""
        texts, lines = [], []
        for node in (one, other):
            text = ast.dump(node)
            for name in walk(node, ast.Name):
                made = self.made(name)
                if len(made) == 1 == len(self._bindings(name.id)):
                    text = text.replace(ast.dump(name), ast.dump(made[0]))
                    lines.append(made[0].lineno)
            texts.append(text)
        between = range(min(lines, default=0), max(lines, default=0) + 1)
        if texts[0] != texts[1]:
            return False
        # What the replaced names are made of must not change in between.
        read = {name.id for name in walk([*self._values(one), *self._values(other)], ast.Name)}
        return not any(line in between for name in read for line in self._bindings(name))

    def _values(self, node: ast.expr) -> list[ast.expr]:
        return [value for name in walk(node, ast.Name) for value in self.made(name)]

    def _bindings(self, name: str) -> list[int]:
        """The lines that bind `name`."""
        bound = (one for one in walk(self.method.body, ast.Name) if isinstance(one.ctx, ast.Store))
        return [one.lineno for one in bound if one.id == name]

    def factor(self, operator: str, value: ast.expr) -> Factor:
        """A factor under the condition of this statement."""
        return Factor(operator, value, self._condition())

    def term(self, kind: str, value: ast.expr) -> Term:
        """A term under the condition of this statement."""
        return Term(kind, self.given(value), self._condition())

    def _condition(self) -> ast.expr | None:
        return None if self.condition is None else self.given(self.condition)
