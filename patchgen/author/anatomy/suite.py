"""Evaluate the statements of one suite, as far as they compute scores, probabilities and contexts.

Everything else stays an expression, which may become an argument of SDPA.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen.author.anatomy.alike import Different, changes_nothing, joined, only_adds
from patchgen.author.anatomy.code import (
    called,
    constant,
    dotted,
    method_of,
    names,
    receiver,
    stored,
    walk,
)
from patchgen.author.anatomy.expressions import Expressions
from patchgen.author.anatomy.joints import either
from patchgen.author.anatomy.operations import product
from patchgen.author.anatomy.scores import Context, Probabilities, Scores, Value
from patchgen.author.anatomy.shapes import empty_scores
from patchgen.author.anatomy.terms import plus


@dataclass
class Evaluation(Expressions):
    """One walk over a suite of `method`."""

    def run(self, suite: list[ast.stmt]) -> None:
        """Evaluate every statement."""
        for self.index, statement in enumerate(suite):
            self.kept += [(self.index, node) for node in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """The part of `node` that does not compute an attention."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._bind(name, self.value(value), node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._bind(name, self.value(value), node)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if name in self.env:
                whole = ast.copy_location(
                    ast.BinOp(ast.copy_location(ast.Name(name, ast.Load()), node), op, value), node
                )
                return self._bind(name, self.value(whole), node)
            case ast.Expr(value=ast.Call() as call) if method_of(call) == "masked_fill_":
                target = dotted(receiver(call))
                if target in self.env:
                    return self._bind(target, self.value(call), node)
            case ast.If() if _only_raises(node.body) and not node.orelse:
                return []
            case ast.If() if self._touches(node) or self._makes_scores(node):
                return self._branch(node)
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
                for name in stored(node):
                    self.env.pop(name, None)
            case ast.Raise() | ast.Assert():
                return []
            case _:
                pass
        self._look_at(node)
        kept = self.rest(node)
        for name in stored(node):
            self.env.pop(name, None)
        return kept

    def _bind(self, name: str, value: Value | None, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(value, Context):
            # The attention ends with its context.
            value = None
        if value is not None and name not in self.opaque:
            self.env[name] = value
            return []
        kept = self.rest(node)
        self.env.pop(name, None)
        return kept

    def _touches(self, node: ast.AST) -> bool:
        return bool((names(node) | stored(node)) & self.env.keys())

    def _makes_scores(self, node: ast.If) -> bool:
        """Whether both branches bind the same name and have a product."""
        if stored(node.body).isdisjoint(stored(node.orelse)):
            return False
        return self._has_product(node.body) and self._has_product(node.orelse)

    def _has_product(self, suite: list[ast.stmt]) -> bool:
        return any(product(one, self.owner) is not None for one in walk(suite, ast.expr))

    def _look_at(self, node: ast.AST) -> None:
        """Evaluate the expressions in a statement, for the contexts and uses in them."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.keyword | ast.stmt):
                self._look_at(child)

    def _branch(self, node: ast.If) -> list[ast.stmt]:
        """Evaluate both branches, and join the values of their names."""
        before, outer, test = dict(self.env), self.condition, node.test
        self._look_at(ast.Expr(test))
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        body, after, uses = self._suite(node.body, _both(outer, test), before)
        orelse, self.env, others = self._suite(node.orelse, _both(outer, negated), before)
        self.condition = outer
        if self.leaving and bool(uses) != bool(others) and self._is_settled(test):
            self.unless.append((test if uses else negated, self.index))
            body, after = (orelse, self.env) if uses else (body, after)
            self.env = dict(after)
            return body
        self.uses += uses + others
        # After a branch that ends the method, only the other one counts.
        if node.body and isinstance(node.body[-1], ast.Return | ast.Raise):
            after = self.env
        joined_env: dict[str, Value] = {}
        for name in after | self.env:
            value = self._joined(after.get(name), self.env.get(name), node)
            if value is not None:
                joined_env[name] = value
        self.env = joined_env
        if not body and not orelse:
            return []
        return [ast.copy_location(ast.If(test, body or [ast.Pass()], orelse), node)]

    def _suite(
        self, suite: list[ast.stmt], condition: ast.expr, before: dict[str, Value]
    ) -> tuple[list[ast.stmt], dict[str, Value], list[tuple[int, ast.AST, str]]]:
        """(what remains of one branch, the values of its names after it, the uses in it)."""
        self.condition, self.env, uses = condition, dict(before), self.uses
        self.uses = []
        kept = [one for statement in suite for one in self.statement(statement)]
        self.uses, found = uses, self.uses
        return kept, self.env, found

    def _is_settled(self, test: ast.expr) -> bool:
        """Whether `test` has one value in the whole method: no name in it is bound again."""
        if any(walk(test, ast.Call)):
            return False
        return (names(test) - {"self"}).isdisjoint(stored(self.method.body))

    def _joined(self, one: Value | None, other: Value | None, node: ast.If) -> Value | None:
        try:
            return joined(one, other)
        except Different as why:
            if (
                isinstance(one, Scores)
                and isinstance(other, Scores)
                and not names(node.test) & stored(node)
            ):
                if (scores := either(node.test, one, other)) is not None:
                    return self.product_given(scores)
            self.use(node, str(why))
            return None

    def others(self, node: ast.AST) -> Value | None:
        called_here = self._called(node)
        if isinstance(node, ast.Call) and called_here is not None and node.args:
            found = self.value(node.args[0])
            result = self._inside(node, called_here, found) if isinstance(found, Scores) else None
            if result is not None:
                return result
        return super().others(node)

    def _called(self, node: ast.AST) -> ast.FunctionDef | None:
        """The method of `self`, or the function of the module, that `node` calls."""
        name = called(node)
        if name.startswith("self."):
            return self.owner.method(name.removeprefix("self."))
        return self.owner.functions.get(name)

    def _inside(self, node: ast.Call, method: ast.FunctionDef, found: Scores) -> Value | None:
        """The result of a method that takes scores, as if it were inlined; None if unknown."""
        parameters = [arg.arg for arg in method.args.args if arg.arg != "self"]
        end = method.body[-1]
        if not parameters or not isinstance(end, ast.Return) or end.value is None:
            return None
        numbers = set()
        for arg, default in _defaults(method):
            if isinstance(constant(default), int | float):
                numbers.add(arg.arg)
        inner = Evaluation(
            self.owner,
            method,
            env={parameters[0]: found},
            index=self.index,
            numbers=frozenset(numbers),
        )
        for statement in method.body[:-1]:
            inner.statement(statement)
        value = inner.value(end.value)
        if inner.uses:
            return None
        if isinstance(value, Probabilities) and changes_nothing(value.scores, found):
            self.softmaxes += 1
            return replace(value, scores=found)
        if isinstance(value, Scores) and only_adds(value, found):
            # What it adds to the scores is its result for zeros.
            bias = ast.Call(node.func, [empty_scores(found), *node.args[1:]], node.keywords)
            return plus(self, found, "add", ast.copy_location(bias, node))
        return None


def _defaults(method: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    return list(zip(method.args.args[::-1], method.args.defaults[::-1], strict=False))


def _only_raises(body: list[ast.stmt]) -> bool:
    """Whether it only checks its input, which SDPA does too."""
    return all(isinstance(node, ast.Raise | ast.Assert) for node in body)


def _both(outer: ast.expr | None, test: ast.expr) -> ast.expr:
    return test if outer is None else ast.BoolOp(ast.And(), [outer, test])
