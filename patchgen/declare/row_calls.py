"""Calls inside of one expert, on the rows of all: products, what looks at one row alone, modules written out."""

from __future__ import annotations

import ast
import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchgen.anatomy.code import argument, called, constant, dotted, last, method_of, parsed, receiver, stored, walk
from patchgen.anatomy.dispatch import Dispatch, NotDispatch
from patchgen.anatomy.ffn import FUNCTIONS, role_of
from patchgen.anatomy.holding import held
from patchgen.anatomy.module import Class, Module
from patchgen.declare.row_values import EXPERTS, PAIRS, RowValues, Value, call_of, names_expert

# Methods and functions that give a row for each row, out of that alone, and those that keep its axes.
SHAPES = frozenset("chunk reshape split view".split())
SAME_AXES = frozenset(
    "abs clamp clamp_max clamp_min clip contiguous exp float pow sigmoid square sqrt tanh to type_as".split()
)
FUNCTIONS_OF_ROWS = (
    SAME_AXES | frozenset(FUNCTIONS) | {"dropout", "elu", "leaky_relu", "mish", "minimum", "maximum", "mul"}
)


@dataclass
class RowCalls(RowValues):
    """Calls of a method; those of modules may bring statements.

    `locals` are the names that they bring; `by_module` is the code of the list of experts that are modules, "" where
    there are none, and `stacked` says that these statements are inside of one.
    """

    written: list[ast.stmt] = field(default_factory=list)
    locals: set[str] = field(default_factory=set)
    by_module: str = ""
    stacked: bool = False
    own: dict[str, str] = field(default_factory=dict)  # names of a module that is written out, and how they are called
    absent: list[str] = field(default_factory=list)  # what says that no expert has weights

    @abstractmethod
    def statement(self, node: ast.stmt) -> None:
        """Write `node`."""

    @abstractmethod
    def bind(self, name: str, value: Value) -> None:
        """Let `name` be `value`."""

    def _call(self, node: ast.Call) -> Value:
        name = called(node)
        if (states := self._taken_flat(node)) is not None:
            return states
        if last(name) == "linear" and not name.startswith("self."):
            return self._functional_linear(node)
        if last(name) in ("matmul", "mm") and not name.startswith("self."):
            rows = self.value(node.args[0]) if len(node.args) == 2 else self.value(receiver(node))
            return self.product(node, rows, self.value(node.args[-1]))
        if name.startswith("self.") and name.count(".") == 1:
            return self._module(node, last(name))
        if isinstance(node.func, ast.Subscript):
            return self._expert(node, node.func)
        if name.rpartition(".")[0] in ("torch", "F", "nn.functional", "torch.nn.functional") or name in FUNCTIONS:
            return self._same(node, ast.unparse(node.func), FUNCTIONS_OF_ROWS)
        if name in ("isinstance", "float", "int", "getattr", "len"):
            return Value(ast.Call(copy.deepcopy(node.func), [self.host(one) for one in node.args], []), "host")
        if method_of(node):
            return self._method_of_rows(node)
        raise self.unknown(node)

    def _taken_flat(self, node: ast.Call) -> Value | None:
        """`x[None, token].reshape(-1, x.shape[-1])`: the rows, with an axis that goes again."""
        if method_of(node) != "reshape" or not isinstance(inner := receiver(node), ast.Subscript):
            return None
        match inner.slice:
            case ast.Tuple(elts=[ast.Constant(value=None), ast.Name(id=token)]) if token == self.found.token:
                sizes = ", ".join(ast.unparse(one) for one in node.args)
                if sizes == f"-1, {ast.unparse(inner.value)}.shape[-1]":
                    return self.value(ast.copy_location(ast.Subscript(inner.value, inner.slice.elts[1]), node))
        return None

    def _functional_linear(self, node: ast.Call) -> Value:
        given = [self.value(one) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
        kinds = [one.kind for one in given]
        if kinds[:2] != ["row", "table"] or len(given) > 3 or (len(given) == 3 and kinds[2] == "row"):
            raise self.unknown(node)
        bias: ast.expr = given[2].node if len(given) == 3 else ast.Constant(None)
        if given[1].transposed or (len(given) == 3 and kinds[2] == "host" and constant(bias) is not None):
            raise self.unknown(node)
        return Value(self.linear(given[0].node, given[1].node, bias), "row")

    def _method_of_rows(self, node: ast.Call) -> Value:
        inner = self.value(receiver(node))
        if inner.kind == "host":
            arguments = [self.host(one) for one in node.args]
            return Value(ast.Call(ast.Attribute(inner.node, method_of(node), ast.Load()), arguments, []), "host")
        if inner.kind == "table" or method_of(node) not in (SAME_AXES if inner.kind == "out" else SAME_AXES | SHAPES):
            raise self.unknown(node)
        if method_of(node) in SHAPES and not _keeps_rows(node):
            raise self.unknown(node)
        call = ast.Call(ast.Attribute(inner.node, method_of(node), ast.Load()), *self._arguments(node))
        return Value(call, inner.kind)

    def _same(self, node: ast.Call, function: str, known: frozenset[str]) -> Value:
        """A call that looks at one row alone, of rows."""
        if last(function) not in known or not node.args:
            raise self.unknown(node)
        first = self.value(node.args[0])
        if first.kind not in ("row", "out"):
            raise self.unknown(node)
        rest = replace_first(node)
        arguments, keywords = self._arguments(rest)
        return Value(ast.Call(parsed(function), [first.node, *arguments], keywords), first.kind)

    def _arguments(self, node: ast.Call) -> tuple[list[ast.expr], list[ast.keyword]]:
        values = [self._row_or_host(one) for one in node.args]
        return values, [ast.keyword(one.arg, self._row_or_host(one.value)) for one in node.keywords]

    def _row_or_host(self, node: ast.expr) -> ast.expr:
        value = self.value(node)
        if value.kind == "table":
            raise self.unknown(node)
        return value.node

    def _module(self, node: ast.Call, attribute: str) -> Value:
        """A call of what `self` has: an activation, a linear layer, a method, or a module that is given weights."""
        function = f"{self.receiver}.{attribute}"
        role = role_of(self.owner, attribute)
        if role == "L" and self.stacked:
            return self._stacked(node, attribute)
        if role:
            return self._same(node, function, frozenset({attribute}))
        method = self.owner.method(attribute)
        if method is not None and self._looks_at_rows(method, self.owner):
            return self._same(node, function, frozenset({attribute}))
        classes = [self.module.classes[name] for name in held(self.owner, attribute) if name in self.module.classes]
        if len(classes) == 1 and (forward := classes[0].method("forward")) is not None:
            given = [self.value(one) for one in node.args]
            return self._inside(node, classes[0], forward, function, given, stacked=self.stacked)
        raise self.unknown(node)

    def _looks_at_rows(self, method: ast.FunctionDef, owner: Class) -> bool:
        """Whether what a method returns has a row for each row that it is given."""
        inner = type(self)(self.module, replace(self.found, token="", place=""), owner)
        inner.values = {arg.arg: Value(ast.Name(arg.arg, ast.Load()), "row") for arg in method.args.args[1:]}
        inner.names = stored(method.body)
        try:
            for node in method.body[:-1]:
                inner.statement(node)
            end = method.body[-1]
            kind = inner.value(end.value).kind if isinstance(end, ast.Return) and end.value is not None else ""
        except NotDispatch:
            return False
        return kind == "row" and not inner.used

    def _inside(
        self,
        node: ast.Call,
        owner: Class,
        forward: ast.FunctionDef,
        receiver_: str,
        given: Sequence[Value],
        *,
        stacked: bool,
    ) -> Value:
        """The statements of a module's forward, written out."""
        parameters = [arg.arg for arg in forward.args.args[1:]]
        end = forward.body[-1]
        if node.keywords or len(parameters) != len(given) or not isinstance(end, ast.Return) or end.value is None:
            raise self.unknown(node)
        inner = type(self)(self.module, replace(self.found, numbers=frozenset()), owner, receiver_)
        inner.names, inner.locals, inner.used, inner.written = self.names, self.locals, self.used, self.written
        for name, value in zip(parameters, given, strict=True):
            if isinstance(value.node, ast.Name):
                inner.values[name] = value
            else:
                inner.bind(name, value)
        inner.by_module, inner.stacked, inner.limit = self.by_module, stacked, self.limit
        for statement in forward.body[:-1]:
            inner.statement(statement)
        return inner.value(end.value)

    def _expert(self, node: ast.Call, function: ast.Subscript) -> Value:
        """A call of the expert itself, which is a module."""
        if not names_expert(function.slice, self.found.numbers) or self.receiver != "self":
            raise self.unknown(node)
        owner = _class_of_experts(self.module, self.owner, function.value)
        forward = owner.method("forward") if owner is not None else None
        if owner is None or forward is None or len(node.args) != 1:
            raise self.unknown(node)
        self.by_module = _each(function, self.found)
        given = [self.value(node.args[0])]
        return self._inside(node, owner, forward, f"{EXPERTS}[0]", given, stacked=True)

    def _stacked(self, node: ast.Call, attribute: str) -> Value:
        """A linear layer of every expert."""
        made = self.owner.attributes[attribute]
        rows = self.value(node.args[0]) if len(node.args) == 1 else None
        name = self.receiver.removeprefix(f"{EXPERTS}[0]").removeprefix(".")
        name = f"{name}.{attribute}".removeprefix(".")
        call = made[0] if len(made) == 1 else None
        if rows is None or rows.kind != "row" or not isinstance(call, ast.Call) or last(called(call)) != "Linear":
            raise self.unknown(node)
        bias = next((one.value for one in call.keywords if one.arg == "bias"), None)
        bias = call.args[2] if len(call.args) > 2 else bias
        if constant(bias) is False:
            self.used.add("stacked")
            weight = call_of("stacked", ast.Name(EXPERTS, ast.Load()), ast.Constant(f"{name}.weight"))
            return Value(self.linear(rows.node, weight, ast.Constant(None)), "row")
        if bias is not None and constant(bias) is not True:
            raise self.unknown(node)
        self.used.add("stacked_linear")
        arguments = (ast.Name(EXPERTS, ast.Load()), ast.Constant(name), ast.Name(PAIRS, ast.Load()))
        return Value(call_of("stacked_linear", rows.node, *arguments), "row")


def replace_first(node: ast.Call) -> ast.Call:
    """The call without its first argument."""
    return ast.copy_location(ast.Call(node.func, node.args[1:], node.keywords), node)


def _keeps_rows(node: ast.Call) -> bool:
    """Whether a view or a split leaves the first axis, that of the rows, alone."""
    if method_of(node) in ("view", "reshape"):
        return bool(node.args) and constant(node.args[0]) == -1
    return constant(argument(node, 1, "dim")) in (-1, 1)


def _each(function: ast.Subscript, found: Dispatch) -> str:
    """The list of the modules that `function` is one of."""
    index = copy.deepcopy(function.slice)
    if isinstance(index, ast.JoinedStr):
        for one in index.values:
            if isinstance(one, ast.FormattedValue):
                one.value = ast.Name("index", ast.Load())
    else:
        index = ast.Name("index", ast.Load())
    one_of = ast.unparse(ast.Subscript(function.value, index, ast.Load()))
    return f"[{one_of} for index in range({found.count or f'{found.choice}.shape[-1]'})]"


def _class_of_experts(module: Module, owner: Class, container: ast.expr) -> Class | None:
    """The one class whose instances `self` holds by number or name, or an attribute of it does."""
    if dotted(container) == "self":
        made = {
            last(called(node.value))
            for method in owner.own.values()
            for node in walk(method.body, ast.Assign)
            if any(isinstance(one, ast.Subscript) and dotted(one.value) == "self" for one in node.targets)
        }
    else:
        made = set(held(owner, last(dotted(container)))) - {"ModuleList", "ModuleDict"}
    return module.classes.get(made.pop()) if len(made) == 1 else None
