"""The statements of one suite, evaluated in their order as far as they make scores, probabilities and contexts.

Everything else is opaque: an expression that SDPA will be given as it stands.
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
        """The part of `node` that is none of attention's."""
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
            # What is done with a context is none of attention's.
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
        """Whether a name is bound in both branches, and there is a product in both."""
        return bool(stored(node.body) & stored(node.orelse)) and all(
            any(product(one, self.owner) is not None for one in walk(suite, ast.expr))
            for suite in (node.body, node.orelse)
        )

    def _look_at(self, node: ast.AST) -> None:
        """Evaluate the expressions directly inside a statement, for the contexts and uses in them."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.keyword | ast.stmt):
                self._look_at(child)

    def _branch(self, node: ast.If) -> list[ast.stmt]:
        """Both branches, each from here; what they make of the scores is put together again."""
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
        # A branch that ends the method leaves nothing behind.
        if node.body and isinstance(node.body[-1], ast.Return | ast.Raise):
            after = self.env
        self.env = {
            name: value
            for name in (after | self.env)
            if (value := self._joined(after.get(name), self.env.get(name), node)) is not None
        }
        if not body and not orelse:
            return []
        return [ast.copy_location(ast.If(test, body or [ast.Pass()], orelse), node)]

    def _suite(
        self, suite: list[ast.stmt], condition: ast.expr, before: dict[str, Value]
    ) -> tuple[list[ast.stmt], dict[str, Value], list[tuple[int, ast.AST, str]]]:
        """What stays of one branch, what its names hold behind it, and the uses in it."""
        self.condition, self.env, uses = condition, dict(before), self.uses
        self.uses = []
        kept = [one for statement in suite for one in self.statement(statement)]
        self.uses, found = uses, self.uses
        return kept, self.env, found

    def _is_settled(self, test: ast.expr) -> bool:
        """Whether `test` says the same in the whole method: it reads `self` and parameters that stay what they are."""
        return not names(test) - {"self"} & stored(self.method.body) and not list(
            walk(test, ast.Call)
        )

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
        return (
            self.owner.method(name[5:])
            if name.startswith("self.")
            else self.owner.functions.get(name)
        )

    def _inside(self, node: ast.Call, method: ast.FunctionDef, found: Scores) -> Value | None:
        """The result of a method that is given scores, as if its statements stood here; None where it is none."""
        parameters = [arg.arg for arg in method.args.args if arg.arg != "self"]
        if (
            not parameters
            or not isinstance(method.body[-1], ast.Return)
            or method.body[-1].value is None
        ):
            return None
        numbers = {
            arg.arg for arg, value in _defaults(method) if isinstance(constant(value), int | float)
        }
        inner = Evaluation(
            self.owner,
            method,
            env={parameters[0]: found},
            index=self.index,
            numbers=frozenset(numbers),
        )
        for statement in method.body[:-1]:
            inner.statement(statement)
        value = inner.value(method.body[-1].value)
        if inner.uses:
            return None
        if isinstance(value, Probabilities) and changes_nothing(value.scores, found):
            self.softmaxes += 1
            return replace(value, scores=found)
        if isinstance(value, Scores) and only_adds(value, found):
            # What it adds to the scores is what it makes of zeros.
            bias = ast.Call(node.func, [empty_scores(found), *node.args[1:]], node.keywords)
            return plus(self, found, "add", ast.copy_location(bias, node))
        return None


def _defaults(method: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    return list(zip(method.args.args[::-1], method.args.defaults[::-1], strict=False))


def _only_raises(body: list[ast.stmt]) -> bool:
    """A check: the statements that it guards are checked by SDPA in its own way."""
    return all(isinstance(node, ast.Raise | ast.Assert) for node in body)


def _both(outer: ast.expr | None, test: ast.expr) -> ast.expr:
    return test if outer is None else ast.BoolOp(ast.And(), [outer, test])
