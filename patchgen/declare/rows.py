"""What one expert does with its tokens, written once for the rows of all experts, by `patchgen.parts.grouped`.

In: the statements of a loop over experts (`patchgen.anatomy.dispatch`).  Out: statements on rows of pairs.  A row is a
token that goes through an expert; whatever looks at one row alone stays as it is, products by an expert's weights
become grouped ones, and calls of a module that has the statements of one expert are written out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from itertools import count

from patchgen.anatomy.code import dotted, method_of, parsed, receiver, stored, walk
from patchgen.anatomy.dispatch import NotDispatch
from patchgen.declare.row_calls import RowCalls
from patchgen.declare.row_values import PAIRS, Value, call_of, shortened_line


@dataclass
class Rows(RowCalls):
    """Writes the statements of a method, to `written`."""

    def statement(self, node: ast.stmt) -> None:
        """Write `node`.

        Raises NotDispatch where it would not be the same for all rows at once.
        """
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bind(name, self.value(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if all(
                isinstance(one, ast.Name) for one in targets
            ):
                self._unpack([dotted(one) for one in targets], self.value(value), node)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                whole = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
                self.bind(name, self.value(ast.copy_location(whole, node)))
            case ast.If(body=[ast.Assign() as cast], orelse=[]) if _is_cast(node, cast):
                self.statement(cast)
            case ast.If():
                self._branch(node)
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise NotDispatch(node, f"`{shortened_line(node)}` is nothing that rows of all experts have")

    def bind(self, name: str, value: Value) -> None:
        """Let `name` be `value`; nothing is written for what cannot change its meaning behind this."""
        read = {one.id for one in walk(value.node, ast.Name)}
        done = isinstance(value.node, ast.Name) and read <= self.locals - set(self.own.values())
        if done or value.kind == "table" or (value.kind == "host" and read <= {"self"}):
            self.values[name] = value
            return
        local = self._local(name)
        self.written.append(ast.Assign([ast.Name(local, ast.Store())], value.node))
        self.values[name] = replace(value, node=ast.Name(local, ast.Load()))

    def _unpack(self, names: list[str], value: Value, node: ast.stmt) -> None:
        if value.kind not in ("row", "out"):
            raise NotDispatch(node, f"`{shortened_line(node)}` takes apart what is no row")
        targets = [ast.Name(self._local(name), ast.Store()) for name in names]
        self.written.append(ast.Assign([ast.Tuple(list(targets), ast.Store())], value.node))
        for name, target in zip(names, targets, strict=True):
            self.values[name] = Value(ast.Name(target.id, ast.Load()), value.kind)

    def _local(self, name: str) -> str:
        """The name of a local where its statement is written, one of its own for each module that is written out."""
        if self.receiver == "self":
            return name
        if name not in self.own:
            taken = self.names | self.locals
            free = (one for number in count() if (one := f"inner_{name}{number or ''}") not in taken)
            self.own[name] = name if name not in taken else next(free)
            self.locals.add(self.own[name])
        return self.own[name]

    def _without_weights(self, node: ast.If) -> str:
        """How many experts have weights, where `node` asks whether this is one that has none; else ""."""
        tests = (
            node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else [node.test]
        )
        match tests[0]:
            case ast.Compare(left=ast.Name(id=number), ops=[ast.GtE()], comparators=[limit]) if (
                number in self.found.numbers and dotted(limit).startswith("self.")
            ):
                absent = [one for one in tests[1:] if ast.unparse(one).endswith(" is None")]
                if absent != tests[1:]:
                    return ""
                self.absent += [ast.unparse(one) for one in absent]
                return dotted(limit)
            case _:
                return ""

    def _apart(self, node: ast.If, limit: str) -> None:
        """Experts without weights do what stands in the body, the others what stands behind it."""
        names = {name for name, value in self.values.items() if value.kind == "row"}
        read = [name for name in sorted(names) if name in {one.id for one in walk(node.orelse, ast.Name)}]
        before = dict(self.values)
        body, orelse = stored(node.body), node.orelse
        if len(node.body) != 1 or len(body) != 1 or not isinstance(node.body[0], ast.Assign):
            raise self.unknown(node)
        (name,) = body
        own = self.value(node.body[0].value)
        self.written += ast.parse(f"idle = ({PAIRS}.expert_P >= {limit})[:, None]").body
        self.locals.add("idle")
        for one in read:
            # Rows behind the last end are left as they were in memory, gradients too.
            self.bind(
                f"busy_{one}", Value(parsed(f"{ast.unparse(self.values[one].node)}.masked_fill(idle, 0)"), "row")
            )
            self.locals.add(f"busy_{one}")
            self.values[one] = self.values[f"busy_{one}"]
        self.limit = limit
        for statement in orelse:
            self.statement(statement)
        self.limit = ""
        other = self.values.get(name)
        if other is None or (own.kind, other.kind) != ("row", "row"):
            raise self.unknown(node)
        where = ast.unparse(call_of("torch.where", ast.Name("idle", ast.Load()), own.node, other.node))
        self.values = before
        self.bind(name, Value(parsed(where), "row"))

    def _branch(self, node: ast.If) -> None:
        if self.receiver == "self" and not self.limit and (limit := self._without_weights(node)):
            self._apart(node, limit)
            return
        test = self.value(node.test)
        if test.kind != "host":
            raise NotDispatch(node, f"`if {shortened_line(node.test)}` is decided expert by expert")
        suites: list[list[ast.stmt]] = []
        before, outer, kinds = dict(self.values), self.written, []
        for suite in (node.body, node.orelse):
            self.values, self.written = dict(before), []
            for one in suite:
                self.statement(one)
            suites.append(self.written or [ast.Pass()])
            kinds.append({name: value.kind for name, value in self.values.items() if value != before.get(name)})
        self.written = outer
        self.written.append(ast.If(test.node, suites[0], suites[1] if node.orelse else []))
        changed = kinds[0].keys() | kinds[1].keys()
        for name in changed:
            known = before[name].kind if name in before else None
            if {kinds[0].get(name, known), kinds[1].get(name, known)} - {known} or known in ("host", "table", None):
                raise NotDispatch(node, f"`{name}` is of two kinds behind `if {shortened_line(node.test)}`")


def _is_cast(node: ast.If, cast: ast.Assign) -> bool:
    """Whether it casts a value to a dtype that it does not have, unless that is of quantised weights."""
    name, call = dotted(cast.targets[0]), cast.value
    if not isinstance(call, ast.Call) or method_of(call) != "to" or dotted(receiver(call)) != name or not call.args:
        return False
    dtype = ast.unparse(call.args[0])
    return f"{name}.dtype != {dtype}" in ast.unparse(node.test)
