"""Expressions of one expert, on the rows of all experts: what each is, and its code by `patchgen.parts.grouped`."""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

from patchgen.anatomy.code import constant, dotted, parsed, stored, walk
from patchgen.anatomy.dispatch import Dispatch, NotDispatch
from patchgen.anatomy.module import Class, Module

PAIRS, EXPERTS = "pairs", "experts"
KEPT = frozenset({"dtype", "device"})

Kind = Literal["host", "row", "out", "table"]


@dataclass(frozen=True, slots=True)
class Value:
    """Code with what it is: known to the host, a row for each pair, (T, K, ...), or one table for each expert."""

    node: ast.expr
    kind: Kind
    transposed: bool = False


@dataclass
class RowValues(ABC):
    """Expressions of a method of `owner`; `used` are the names of the part that their code needs.

    `receiver` is the code of what the method calls `self`, `names` has the local names around.  `limit` is the code of
    how many experts have weights, "" where all have, and `ends` that of where their rows end.
    """

    module: Module
    found: Dispatch
    owner: Class
    receiver: str = "self"
    values: dict[str, Value] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    limit: str = ""
    ends: str = f"{PAIRS}.ends_E"

    def value(self, node: ast.expr) -> Value:
        """`node` on rows."""
        match node:
            case ast.Constant():
                return Value(copy.deepcopy(node), "host")
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute(value=inner, attr=attr):
                return self._attribute(node, inner, attr)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self.product(node, self.value(left), self.value(right))
            case ast.BinOp(left=left, op=op, right=right):
                return self._elementwise(node, left, op, right)
            case ast.UnaryOp(op=op, operand=operand):
                inner_value = self.value(operand)
                return Value(ast.UnaryOp(op, inner_value.node), inner_value.kind)
            case ast.BoolOp(op=op, values=values):
                return Value(ast.BoolOp(op, [self.host(one) for one in values]), "host")
            case ast.Compare(left=left, ops=ops, comparators=others):
                return Value(ast.Compare(self.host(left), ops, [self.host(one) for one in others]), "host")
            case ast.Tuple(elts=elements):
                return Value(ast.Tuple([self.host(one) for one in elements], ast.Load()), "host")
            case ast.Call():
                return self._call(node)
            case _:
                raise self.unknown(node)

    def host(self, node: ast.expr) -> ast.expr:
        found = self.value(node)
        if found.kind != "host":
            raise self.unknown(node)
        return found.node

    def unknown(self, node: ast.AST) -> NotDispatch:
        return NotDispatch(node, f"`{shortened_line(node)}` is not known to be the same for rows of all experts")

    def _name(self, node: ast.expr, name: str) -> Value:
        if name in self.values:
            return replace(self.values[name], node=copy.deepcopy(self.values[name].node))
        if name == "self":
            return Value(parsed(self.receiver), "host")
        if name in self.names or name in self.found.hidden | {self.found.total}:
            raise self.unknown(node)
        return Value(ast.Name(name, ast.Load()), "host")

    def _attribute(self, node: ast.Attribute, inner: ast.expr, attr: str) -> Value:
        value = self.value(inner)
        match value.kind:
            case "table" if attr == "T":
                return replace(value, transposed=not value.transposed)
            case "host":
                return Value(ast.Attribute(value.node, attr, ast.Load()), "host")
            case "row" | "out" if attr in KEPT:
                return Value(ast.Attribute(value.node, attr, ast.Load()), "host")
            case _:
                raise self.unknown(node)

    def _subscript(self, node: ast.Subscript) -> Value:
        inner, index = node.value, node.slice
        if dotted(index) == self.found.token and (states := self._outside(inner)) is not None:
            return Value(method_call(ast.Name(PAIRS, ast.Load()), "take", states), "row")
        if names_expert(index, self.found.numbers):
            table = self._outside(inner)
            if table is not None:
                return Value(table, "table")
        value = self.value(inner)
        if isinstance(index, ast.Tuple) and index.elts and constant(index.elts[0]) is Ellipsis and value.kind == "row":
            return Value(ast.Subscript(value.node, copy.deepcopy(index), ast.Load()), "row")
        if value.kind == "host":
            return Value(ast.Subscript(value.node, self.host(index), ast.Load()), "host")
        raise self.unknown(node)

    def _outside(self, node: ast.expr) -> ast.expr | None:
        """Code over what is known before the loop; None where it has something of one expert."""
        inside = {one.id for one in walk(node, ast.Name)}
        of_one = self.found.hidden | {self.found.total} | self.values.keys() | stored(self.found.body)
        if inside & of_one or self.receiver != "self":
            return None
        return copy.deepcopy(node)

    def _elementwise(self, node: ast.BinOp, left: ast.expr, op: ast.operator, right: ast.expr) -> Value:
        if isinstance(op, ast.Mult):
            for one, other in ((left, right), (right, left)):
                if (weights := self._weights(one)) is not None:
                    return self._weighted(self.value(other), weights)
        first, second = self.value(left), self.value(right)
        kinds = {first.kind, second.kind}
        if kinds == {"row", "table"} and isinstance(op, ast.Add):
            # A bias for each expert.
            table = first if first.kind == "table" else second
            picked = ast.Subscript(table.node, parsed(f"{PAIRS}.expert_P"), ast.Load())
            pair = [picked if one is table else one.node for one in (first, second)]
            return Value(ast.BinOp(pair[0], op, pair[1]), "row")
        if "table" in kinds or {"row", "out"} <= kinds:
            raise self.unknown(node)
        kind: Kind = "row" if "row" in kinds else "out" if "out" in kinds else "host"
        return Value(ast.BinOp(first.node, op, second.node), kind)

    def _weights(self, node: ast.expr) -> ast.expr | None:
        """The weights of tokens' choices, of which `node` takes those of one expert."""
        match node:
            case ast.Subscript(value=weights, slice=ast.Tuple(elts=[ast.Name(id=token), ast.Name(id=place), end])):
                own = (token, place) == (self.found.token, self.found.place)
                return self._outside(weights) if own and isinstance(end, ast.Constant) and end.value is None else None
            case _:
                return None

    def _weighted(self, states: Value, weights: ast.expr) -> Value:
        index = ast.Tuple([ast.Constant(Ellipsis), ast.Constant(None)], ast.Load())
        return Value(ast.BinOp(self.back(states), ast.Mult(), ast.Subscript(weights, index, ast.Load())), "out")

    def back(self, states: Value) -> ast.expr:
        """Code for (T, K, ...)."""
        if states.kind == "row":
            return method_call(ast.Name(PAIRS, ast.Load()), "back", states.node)
        if states.kind != "out":
            raise self.unknown(states.node)
        return states.node

    def product(self, node: ast.expr, rows: Value, table: Value) -> Value:
        if (rows.kind, table.kind) != ("row", "table"):
            raise self.unknown(node)
        if table.transposed:
            return Value(self.linear(rows.node, table.node, ast.Constant(None)), "row")
        return Value(self._grouped(rows.node, table.node), "row")

    def _grouped(self, rows: ast.expr, weight: ast.expr) -> ast.expr:
        self.used.add("grouped_product")
        return call_of("grouped_product", rows, weight, parsed(f"{self.ends}{self._first}"))

    @property
    def _first(self) -> str:
        """The subscript for the experts that have weights."""
        return f"[: {self.limit}]" if self.limit else ""

    def linear(self, rows: ast.expr, weight: ast.expr, bias: ast.expr) -> ast.expr:
        if self.limit or not self.ends.startswith(PAIRS):
            if constant(bias) is not None or not isinstance(bias, ast.Constant):
                raise self.unknown(bias)
            weights = f"{ast.unparse(weight)}{self._first}.transpose(1, 2)"
            return self._grouped(rows, parsed(weights))
        self.used.add("grouped_linear")
        return call_of("grouped_linear", rows, weight, bias, ast.Name(PAIRS, ast.Load()))

    @abstractmethod
    def _call(self, node: ast.Call) -> Value:
        """A call on rows."""


def call_of(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def method_call(value: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(value, name, ast.Load()), list(arguments), [])


def names_expert(index: ast.expr, numbers: frozenset[str]) -> bool:
    """Whether it is the loop's expert, as a number or inside a name: `e`, `e[0]`, `f"expert_{e}"`."""
    match index:
        case ast.JoinedStr(values=values):
            inside = [one.value for one in values if isinstance(one, ast.FormattedValue)]
            return len(inside) == 1 and names_expert(inside[0], numbers)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=0)):
            return name in numbers
        case _:
            return dotted(index) in numbers


def shortened_line(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
