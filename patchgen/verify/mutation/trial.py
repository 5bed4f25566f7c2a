"""Leave out the errors that can only crash: try each beside the right expression.

A statement is run with every error that it can have, after it is run as it is:

    y = x.sum(-1) * scale                           # as it is written

    y = trial(7, lambda: x.sum(-1) * scale, (       # as it is tried
        lambda: x.sum(-2) * scale,                  # another shape: something breaks later
        lambda: x.mean(-1) * scale,                 # the same shape and dtype
        lambda: x.sum(-1) * None,                   # an exception
    ))

An error goes on if it gives a value of the same kind.  What else it does in the trial does no harm:
the verdicts of these runs are not asked for.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import GeneratorType
from typing import Any

import torch
from torch import Tensor

from patchgen.verify.mutation.lines import iterate_codes
from patchgen.verify.mutation.mutations import Mutant, Source
from patchgen.verify.mutation.plant import Living, swapped

_NAME = "__trial__"
_Right = Callable[[], Any]


class Trials:
    """The mutants that were tried beside the right code, and those that gave other kinds."""

    def __init__(self, right: Living, mutants: Sequence[Mutant]) -> None:
        self.right = right
        self.tried: set[Mutant] = set()
        self.unfit: set[Mutant] = set()
        self.moving: set[Mutant] = set()  # where there was a gradient to lose
        self._groups: list[list[Mutant]] = []
        self._done: set[Mutant] = set()  # in this run
        self._is_trying = False
        tree = _Instrument(right.text, mutants, self._groups).visit(ast.parse(right.text))
        code = compile(ast.fix_missing_locations(tree), right.path, "exec", dont_inherit=True)
        self._codes = list(iterate_codes(code))

    def goes_on(self, mutant: Mutant) -> bool:
        """Whether it gave values of the right kind, or was not tried."""
        moves = mutant.says != "detached" or mutant in self.moving
        return mutant not in self.unfit and (moves or mutant not in self.tried)

    def left(self) -> Iterator[Mutant]:
        """Those that no run has come by so far."""
        return (one for group in self._groups for one in group if one not in self.tried)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which the module tries each mutant once, where it comes by."""
        self._done.clear()
        names = vars(self.right.module)
        names[_NAME] = self._try
        try:
            with swapped(self.right, self._codes):
                yield
        finally:
            del names[_NAME]

    def _try(self, group: int, right: _Right, wrong: Sequence[_Right]) -> Any:
        if self._is_trying:
            return right()
        value = right()  # first: it may read what can be read once
        kind, kinds = kind_of(value), dict[Mutant, object]()
        self._is_trying = True
        try:
            for mutant, run in zip(self._groups[group], wrong, strict=True):
                if mutant not in self._done:
                    self._done.add(mutant)
                    kinds[mutant] = _tried(run)
        finally:
            self._is_trying = False
        self.tried |= kinds.keys()
        self.unfit |= {mutant for mutant, other in kinds.items() if other != kind}
        self.moving |= kinds.keys() if getattr(value, "requires_grad", False) else set()
        return value


def _tried(run: _Right) -> object:
    with torch.no_grad():
        try:
            return kind_of(run())
        except Exception:  # a wrong expression may raise anything
            return Exception


def kind_of(value: object) -> object:
    """What code that goes on relies on: types, shapes and dtypes, of all that is inside."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.is_contiguous()
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple | list):
        return type(value), *map(kind_of, value)
    if isinstance(value, Mapping):
        return type(value), *((name, kind_of(each)) for name, each in value.items())
    if isinstance(value, GeneratorType):
        return object()  # nobody knows before it runs
    if isinstance(value, functools.partial):
        return value.func, kind_of(value.args), kind_of(value.keywords)
    return type(value)


class _Instrument(ast.NodeTransformer):
    """Writes the trial of each mutant into the statement that it is in."""

    def __init__(self, text: str, mutants: Sequence[Mutant], groups: list[list[Mutant]]) -> None:
        self.source, self.groups = Source(text), groups
        self.mutants = [mutant for mutant in mutants if mutant.function]

    def generic_visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        if not isinstance(node, ast.stmt):
            return node
        first: list[ast.stmt] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if getattr(node.value.func, "attr", "") in _GROWS:  # twice is not once
                node.value.args = [self._argument(each) for each in node.value.args]
                return node
        for field in ("value", "test", "iter"):
            expression = getattr(node, field, None)
            if isinstance(expression, ast.expr):
                wrong = self._inside(expression)
                if field == "value" and isinstance(node, ast.Assign):
                    wrong += self._removed(node)
                setattr(node, field, self._trial(expression, wrong))
        for target in getattr(node, "targets", ()):
            if isinstance(target, ast.Subscript) and (wrong := self._inside(target)):
                first.append(ast.Expr(self._trial(target, wrong)))
        return [*first, node] if first else node

    def _argument(self, given: ast.expr) -> ast.expr:
        if isinstance(given, ast.Starred):
            return ast.Starred(self._argument(given.value), ast.Load())
        return self._trial(given, self._inside(given))

    def _inside(self, expression: ast.expr) -> list[tuple[Mutant, str]]:
        """Each mutant of the expression, and the wrong expression."""
        start, end = self.source.span(expression)
        text = self.source.text
        return [
            (one, f"{text[start : one.start]}{one.replacement}{text[one.end : end]}")
            for one in self.mutants
            if start <= one.start and one.end <= end and one.says != "statement removed"
        ]

    def _removed(self, node: ast.Assign) -> list[tuple[Mutant, str]]:
        """The mutant without the assignment: its target stays what it was."""
        span, target = self.source.span(node), self.source.of(node.targets[0])
        return [(one, target) for one in self.mutants if (one.start, one.end) == span]

    def _trial(self, right: ast.expr, wrong: list[tuple[Mutant, str]]) -> ast.expr:
        if not wrong or any(isinstance(each, _BOUND_HERE) for each in ast.walk(right)):
            return right
        self.groups.append([mutant for mutant, _ in wrong])
        loaded = ast.parse(f"({self.source.of(right)})", mode="eval").body
        texts = (ast.parse(f"({text}\n)", mode="eval").body for _, text in wrong)
        number = ast.Constant(len(self.groups) - 1)
        lambdas = ast.Tuple([_lambda(each) for each in texts], ast.Load())
        name = ast.Name(_NAME, ast.Load())
        return ast.Call(name, [number, _lambda(loaded), lambdas], [])


# Methods that change what the code goes on with.
_GROWS = frozenset(
    "add append clear extend insert move_to_end pop remove save_for_backward setdefault "
    "update".split()
)
_BOUND_HERE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def _lambda(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, _Super().visit(body))


class _Super(ast.NodeTransformer):
    """`super()` finds its class and its object in a method alone, and not in a lambda inside it."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name("self", ast.Load())]
        return node
