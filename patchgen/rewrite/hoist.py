"""Every `super()` of a flat class resolved: written out, or its target kept beside it under a private name.

A method of `chain[i]` finds by `super().m` the first class behind `chain[i]` that has m.  Where that is a class of the
chain, its m is inlined (`inline`) or hoisted as `_m_of_Class`; what is inlined or hoisted is resolved in turn at its
own place in the chain.  Where no class of the chain has m, `super()` stays: it goes on to the bases.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.errors import PatchgenError, Problem
from patchgen.plan.model import ClassPlan
from patchgen.rewrite.classbody import ClassBody, Statement
from patchgen.rewrite.fields import fields_of, generated_between
from patchgen.rewrite.fragment import INDENT, Splice, splice
from patchgen.rewrite.initial import settle
from patchgen.rewrite.inline import Inlined, Site, binding, call_site, inlined
from patchgen.rewrite.supercall import (
    Misuse,
    SuperUse,
    class_reads,
    first_parameter,
    marker_index,
    methods_of,
    super_uses,
)
from patchgen.source.scopes import FunctionNode, bound_names, local_names

_IMPLICIT = {"__new__": "staticmethod", "__init_subclass__": "classmethod", "__class_getitem__": "classmethod"}
DOCUMENTATION = frozenset({"auto_docstring"})


@dataclass(frozen=True, slots=True)
class Resolved:
    """Statements with nothing left to resolve, and what went wrong."""

    statements: tuple[Statement, ...]
    problems: tuple[Problem, ...]


def resolve_supers(plan: ClassPlan, bodies: tuple[ClassBody, ...], order: Sequence[Statement]) -> Resolved:
    """The class body `order` with every `super()` of a class of the chain resolved."""
    work = _Resolver(plan, bodies, order)
    last = {name: place for place, statement in enumerate(order) for name in statement.names}
    done: list[Statement] = []
    waiting: list[tuple[int, list[Statement]]] = []
    for place, statement in enumerate(order):
        above = work.with_class_reads(statement)
        done += [*work.take_hoisted(), work.resolved(above)]
        # Below the whole member: a property stays together with its setter.
        waiting.append((max((last[name] for name in statement.names), default=place), work.take_hoisted()))
        done += [copy for until, copies in waiting if until == place for copy in copies]
    return Resolved(tuple(done), tuple(work.problems))


class _Resolver:
    """Remembers what has been hoisted, so that it is hoisted once."""

    def __init__(self, plan: ClassPlan, bodies: tuple[ClassBody, ...], order: Sequence[Statement]) -> None:
        self.problems: list[Problem] = []
        self._plan, self._bodies = plan, bodies
        self._order = order
        self._fields = fields_of(plan, bodies)
        self._names: dict[tuple[str, int], str] = {}
        self._taken = _identifiers(plan)
        self._hoisted: list[Statement] = []

    def take_hoisted(self) -> list[Statement]:
        """What has been hoisted since the last time."""
        taken, self._hoisted = self._hoisted, []
        return taken

    def with_class_reads(self, statement: Statement) -> Statement:
        """`statement` with the parent's attributes that it reads in the class body: `Parent.names + ["more"]`."""
        code = statement.fragment
        changes = []
        for node in class_reads(statement.node):
            place = marker_index(node.value) or 0
            binders = self._bodies[place].binders(node.attr)
            literal = _literal(binders[0]) if len(binders) == 1 else None
            if not binders:
                what = f"{self._own(place)}.{node.attr} is inherited from outside the classes that are merged"
                self._refuse("PG212", statement, node, what, "name the class that has it")
            elif literal:
                changes.append(Splice(*code.span(node), literal))
            elif name := self._hoist(node.attr, place, statement, node):
                changes.append(Splice(*code.span(node), name))
        return statement.with_text(splice(code.text, changes))

    def resolved(self, statement: Statement) -> Statement:
        """`statement` with each `super()` that a class of the chain answers replaced."""
        changes: list[Splice] = []
        parents: list[tuple[Site, Inlined]] = []
        for method in methods_of(statement.node):
            uses = [use for use in super_uses(method, statement.origin, self._plan) if self._is_ours(use, statement)]
            for use in uses:
                changes += self._changes(use, uses, method, statement, parents)
        text = splice(statement.text, changes)
        for site, written in parents:
            if site.method.name == "__init__" and not site.returned:
                text = settle(text, site.number, written.count, first_parameter(site.method) or "self")
        return statement.with_text(text)

    def _is_ours(self, use: SuperUse | Misuse, statement: Statement) -> bool:
        if isinstance(use, SuperUse):
            target = self._target(use)
            by_name = use.receiver is None or marker_index(_owner(use)) is not None
            return by_name or target is not None or self._is_generated(use, target)
        # Behind the last class of the chain come the bases, where everything stays as it is.
        if statement.origin < len(self._bodies) - 1 or not isinstance(use.node, ast.Name) or use.node.id != "super":
            self._refuse("PG210", statement, use.node, use.what, use.hint)
        return False

    def _target(self, use: SuperUse) -> int | None:
        places = range(use.start, len(self._bodies))
        return next((place for place in places if use.name in self._bodies[place].names), None)

    def _is_generated(self, use: SuperUse, target: int | None) -> bool:
        return generated_between(use.name, use.start, target, self._bodies, self._fields)

    def _changes(
        self,
        use: SuperUse | Misuse,
        uses: Sequence[SuperUse | Misuse],
        method: FunctionNode,
        statement: Statement,
        parents: list[tuple[Site, Inlined]],
    ) -> Iterator[Splice]:
        assert isinstance(use, SuperUse)
        target = self._target(use)
        if self._is_generated(use, target):
            what = f"super().{use.name} means the method that a decorator generates for a class that is merged"
            self._refuse("PG224", statement, use.node, what, f"write out what {use.name} does")
            return
        if target is None:
            yield from self._beyond(use, statement)
            return
        if not self._may_resolve(use, method, statement, target):
            return
        alone = sum(isinstance(u, SuperUse) and u.name == use.name for u in uses) == 1
        site = call_site(method, use, statement.fragment) if alone and statement.node is method else None
        written = self._inline(use, site, statement, target) if site else None
        if site and written:
            parents.append((site, written))
            start, end = statement.fragment.line_span(written.first, written.last)
            yield Splice(start, end, written.text)
            return
        yield from self._call(use, method, statement, target)

    def _beyond(self, use: SuperUse, statement: Statement) -> Iterator[Splice]:
        """A use that no class of the chain answers: `super()` stays, a parent by name cannot."""
        owner = _owner(use)
        if use.receiver is None:
            what = f"{self._own(use.start)}.{use.name} is inherited from outside the classes that are merged"
            self._refuse("PG212", statement, use.node, what, f"write super().{use.name}")
        elif marker_index(owner) is not None:
            start, end = statement.fragment.span(owner)
            yield Splice(start, end, self._plan.name)

    def _may_resolve(self, use: SuperUse, method: FunctionNode, statement: Statement, target: int) -> bool:
        what = f"super().{use.name}"
        if any(binder.removes for binder in self._bodies[target].binders(use.name)):
            self._refuse("PG231", statement, use.node, f"{what} has been removed by {self._own(target)}", "")
            return False
        if use.nested and use.receiver is not None:
            hint = f"bind it first: inherited = {what}"
            self._refuse("PG211", statement, use.node, f"{what} stands in a nested function or comprehension", hint)
            return False
        receiver = first_parameter(method)
        if use.receiver is None:
            return True
        if receiver is None:
            self._refuse("PG210", statement, use.node, f"{what} in a function without a first parameter", "")
            return False
        body: list[ast.AST] = list(method.body) if isinstance(method.body, list) else [method.body]
        if use.receiver in set(bound_names(body)):
            hint = "give the other value a name of its own"
            self._refuse("PG213", statement, use.node, f"{what} where {use.receiver} is bound again", hint)
            return False
        return True

    def _inline(self, use: SuperUse, site: Site, child: Statement, target: int) -> Inlined | None:
        """The parent's method written out; None where it has to be hoisted."""
        binders = self._bodies[target].binders(use.name)
        if len(binders) != 1 or _has_super(site.call):
            return None
        parent = self.resolved(binders[0])
        bound = binding(site, use, child, parent)
        if bound is None:
            return None
        return inlined(site, child, parent, [(name, _argument(value, child)) for name, value in bound.bound])

    def _call(self, use: SuperUse, method: FunctionNode, statement: Statement, target: int) -> Iterator[Splice]:
        code = statement.fragment
        start, end = code.span(use.node)
        if not code.text[start:end].endswith(use.name):
            what = f"super().{use.name} in a string cannot be placed"
            self._refuse("PG211", statement, use.node, what, "bind it to a name on a line before")
            return
        if use.receiver and self._survives(use, method, target) and code.text[end : end + 1] == "(":
            # The method is the flat class's own: no second copy of it.
            has_more = use.call and (use.call.args or use.call.keywords)
            yield Splice(start, end + 1, f"{self._plan.name}.{use.name}({use.receiver}{', ' if has_more else ''}")
            return
        name = self._hoist(use.name, target, statement, use.node)
        if name is None:
            return
        if use.receiver is not None:
            yield Splice(start, end, f"{use.receiver}.{name}")
        elif use.call and use.call.args and isinstance(use.call.args[0], ast.Name):
            receiver = use.call.args[0]
            after = code.span(use.call.args[1])[0] if len(use.call.args) > 1 else code.span(receiver)[1]
            if len(use.call.args) == 1 and use.call.keywords:
                after = code.offset(use.call.keywords[0].lineno, use.call.keywords[0].col_offset)
            yield Splice(start, after, f"{receiver.id}.{name}(")
        else:
            yield Splice(start, end, f"{self._plan.name}.{name}")

    def _survives(self, use: SuperUse, method: FunctionNode, target: int) -> bool:
        """Whether the member that is asked for is a plain method of the flat class under its own name."""
        binders = [statement for statement in self._order if use.name in statement.names]
        wanted = self._bodies[target].binders(use.name)
        if len(binders) != 1 or [b.key for b in binders] != [w.key for w in wanted] or use.call is None:
            return False
        node = binders[0].node
        plain = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
        return plain and use.name not in _IMPLICIT and self._plan.name not in local_names(method)

    def _hoist(self, name: str, target: int, statement: Statement, node: ast.expr) -> str | None:
        """The private name under which `chain[target]`'s `name` is kept."""
        if (name, target) in self._names:
            return self._names[name, target]
        body = self._bodies[target]
        group = body.binders(name)
        if any(set(member.names) != {name} for member in group):
            what = f"super().{name} is bound together with other names in {body.own_name}"
            self._refuse("PG214", statement, node, what, f"write {name} out in the child")
            return None
        private = self._free_name(f"_{name.strip('_') or 'method'}_of_{body.own_name.strip('_')}")
        self._names[name, target] = private
        for member in group:
            copy = replace(_renamed(member, name, private), leading="\n")
            self._hoisted.append(self.resolved(copy))
        return private

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def _own(self, place: int) -> str:
        return self._bodies[place].own_name

    def _refuse(self, code: str, statement: Statement, node: ast.AST, what: str, hint: str) -> None:
        at = self._bodies[statement.origin].at(statement, node)
        self.problems.append(PatchgenError(code, at, what, hint).problem)


def _owner(use: SuperUse) -> ast.expr:
    """The class that `super(T, self)` or `T.name` names; the node itself for a plain `super()`."""
    value = use.node.value
    if isinstance(value, ast.Call):
        return value.args[0] if value.args else value
    return value


def _has_super(call: ast.Call) -> bool:
    """Whether an argument of the call has a `super()` of its own."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(n, ast.Name) and n.id == "super" for a in arguments for n in ast.walk(a))


def _argument(value: ast.expr, child: Statement) -> str:
    """The text of an argument; a default comes from the parent, where only its value is known."""
    if not any(node is value for node in ast.walk(child.node)):
        return ast.unparse(value)
    text = child.fragment.source(value)
    return f"({text})" if "\n" in text else text


def _literal(statement: Statement) -> str | None:
    """The text of an attribute that is a literal, in brackets of its own."""
    node = statement.node
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return None
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError):
        return None
    text = statement.fragment.source(node.value)
    return text if isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.Constant) else f"({text})"


def _renamed(member: Statement, name: str, private: str) -> Statement:
    """`member` under the name `private`, which it and its decorators bind and read in the class body."""
    code = member.fragment
    changes: list[Splice] = []
    stack: list[ast.AST] = [member.node]
    implicit = ""
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                start = code.offset(node.lineno, node.col_offset)
                found = re.compile(r"(?:async\s+)?def\s+(\w+)").match(code.text, start)
                if node.name == name and found:
                    changes.append(Splice(found.start(1), found.end(1), private))
                    implicit = _IMPLICIT.get(name, "") if not node.decorator_list else ""
                changes += [
                    Splice(*code.line_span(d.lineno, d.end_lineno or d.lineno), "")
                    for d in node.decorator_list
                    if ast.unparse(d.func if isinstance(d, ast.Call) else d) in DOCUMENTATION
                ]
                stack += [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
            case ast.Lambda() | ast.ClassDef():
                pass
            case ast.Name(id=found_name) if found_name == name:
                changes.append(Splice(*code.span(node), private))
            case _:
                stack += ast.iter_child_nodes(node)
    text = splice(code.text, changes)
    if implicit:
        text = f"{INDENT}@{implicit}\n{text}"
    return replace(member.with_text(text), names=(private,))


def _identifiers(plan: ClassPlan) -> set[str]:
    found: set[str] = set()
    for piece in plan.chain:
        tokens = tokenize.generate_tokens(io.StringIO(piece.text).readline)
        found.update(token.string for token in tokens if token.type == tokenize.NAME)
    return found
