"""What a walk over the statements of one suite knows at each of them, and what it has found so far."""

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
    """The tracked names of `method`, and lists of what was found, each with the index of its statement.

    `opaque` are names that are not to be tracked; `culprits` those that should not have been, and since when.
    `condition` is under what the statement of `index` runs.  What holds of the scores holds where none of `unless`
    does; there are such conditions only in a walk that is `leaving`.
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
        """A tracked value is used here as no attention uses it."""
        self.uses.append((self.index, node, why))

    def blame(self, node: ast.AST) -> None:
        """The tracked names in `node` should not have been."""
        for name in names(node) & self.env.keys():
            self.culprits.setdefault(name, self.index)

    def given(self, node: ast.expr) -> ast.expr:
        """`node`, which the call of SDPA will be given, evaluated where this statement stands."""
        self.recorded.append((node, self.index))
        return node

    def plain(self, node: _Node) -> _Node:
        """`node`, its reads of shapes and dtypes of scores in other words."""
        return without_scores(node, self.env)

    def rest(self, node: ast.stmt) -> list[ast.stmt]:
        """`node` where it stays; as it stands where a context is made in it, so that the place can be found."""
        places = {id(context.node) for context, _ in self.contexts}
        return [node if any(id(inner) in places for inner in ast.walk(node)) else self.plain(node)]

    def made(self, node: ast.expr) -> list[ast.expr]:
        """Every value that the method gives the name `node`."""
        if not isinstance(node, ast.Name):
            return []
        return [one.value for one in walk(self.method, ast.Assign) if stored(one) == {node.id}]

    def is_same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether both are the same value: the same code in the place of each name that is bound once."""
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
        read = {
            name.id
            for node in (one, other)
            for value in self._values(node)
            for name in walk(value, ast.Name)
        }
        return texts[0] == texts[1] and not any(
            line in between for name in read for line in self._bindings(name)
        )

    def _values(self, node: ast.expr) -> list[ast.expr]:
        return [value for name in walk(node, ast.Name) for value in self.made(name)]

    def _bindings(self, name: str) -> list[int]:
        """The lines that bind it."""
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
