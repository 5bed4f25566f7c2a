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
from patchgen.rewrite.ancestry import outer_base, searched
from patchgen.rewrite.classbody import ClassBody, Statement
from patchgen.rewrite.fields import fields_of, generated_between
from patchgen.rewrite.fragment import INDENT, Fragment, Splice, splice
from patchgen.rewrite.initial import not_plain_attributes, settle
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
# They say something of the class's own method, which a private copy of the parent's is not.
_NOT_OF_A_COPY = frozenset({"auto_docstring", "abstractmethod"})


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
        done.append(work.resolved(above))
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
        self._special = not_plain_attributes(bodies)
        self._names: dict[tuple[str, int], str] = {}
        self._taken = _identifiers(plan)
        self._hoisted: list[Statement] = []

    def take_hoisted(self) -> list[Statement]:
        """What has been hoisted since the last time."""
        taken, self._hoisted = self._hoisted, []
        return taken

    def with_class_reads(self, statement: Statement) -> Statement:
        """`statement` with what it reads of a parent in the class body: it stands above, as `classscope` saw to."""
        code = statement.fragment
        changes = [Splice(*code.span(node), node.attr) for node in class_reads(statement.node)]
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
                text = settle(text, site.number, written.count, first_parameter(site.method) or "self", self._special)
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
        by_name = use.receiver is None
        places = searched(self._bodies, use.start) if by_name else range(use.start, len(self._bodies))
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
            base = outer_base(self._plan, self._bodies, use.start)
            if base is not None:
                yield Splice(*statement.fragment.span(use.node.value), base)
                return
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
        survives = self._survives(use, method, target)
        if use.receiver and survives and use.call and code.text[end : end + 1] == "(":
            # The method is the flat class's own: no second copy of it.
            more = ", " if use.call.args or use.call.keywords else ""
            yield Splice(start, end + 1, f"{self._plan.name}.{use.name}({use.receiver}{more}")
            return
        if use.receiver is None and self._is_classmethod(use.name, target):
            what = f"{self._own(target)}.{use.name} is a classmethod of a class that is merged into another"
            self._refuse("PG210", statement, use.node, what, f"write super().{use.name}")
            return
        name = use.name if survives else self._hoist(use.name, target, statement, use.node)
        if name is None:
            return
        given = _given_object(use, method, code)
        if use.receiver is not None:
            yield Splice(start, end, f"{use.receiver}.{name}")
        elif given and not survives and self._is_plain(use.name, target):
            yield Splice(start, given[1], f"{given[0]}.{name}(")
        else:
            yield Splice(start, end, f"{self._plan.name}.{name}")

    def _is_plain(self, name: str, target: int) -> bool:
        """Whether the member is a plain method, which binds its object."""
        node = self._bodies[target].binders(name)[0].node
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list

    def _is_classmethod(self, name: str, target: int) -> bool:
        decorators = getattr(self._bodies[target].binders(name)[0].node, "decorator_list", [])
        return any(isinstance(node, ast.Name) and node.id == "classmethod" for node in decorators)

    def _survives(self, use: SuperUse, method: FunctionNode, target: int) -> bool:
        """Whether the member that is asked for is a plain method of the flat class under its own name."""
        binders = [statement for statement in self._order if use.name in statement.names]
        wanted = self._bodies[target].binders(use.name)
        if len(binders) != 1 or [b.key for b in binders] != [w.key for w in wanted]:
            return False
        return (
            self._is_plain(use.name, target)
            and use.name not in _IMPLICIT
            and self._plan.name not in local_names(method)
        )

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


def _given_object(use: SuperUse, method: FunctionNode, code: Fragment) -> tuple[str, int] | None:
    """The method's own object as the first argument of `Parent.m(self, ...)`, and where the other arguments begin."""
    match use.call:
        case ast.Call(args=[ast.Name(id=receiver) as first, *rest], keywords=keywords) if receiver == first_parameter(
            method
        ):
            if receiver in set(bound_names(method.body if isinstance(method.body, list) else [method.body])):
                return None
            if use.nested or _is_static(method):
                return None
            following = [*rest, *keywords][:1]
            if following and isinstance(following[0], ast.keyword) and following[0].arg is None:
                return None
            return receiver, code.span(following[0])[0] if following else code.span(first)[1]
        case _:
            return None


def _is_static(method: FunctionNode) -> bool:
    decorators = getattr(method, "decorator_list", [])
    return any(isinstance(node, ast.Name) and node.id == "staticmethod" for node in decorators)


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
                    if ast.unparse(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] in _NOT_OF_A_COPY
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
    return replace(member.with_text(text), names=(private,), hoisted=True)


def _identifiers(plan: ClassPlan) -> set[str]:
    found: set[str] = set()
    for piece in plan.chain:
        tokens = tokenize.generate_tokens(io.StringIO(piece.text).readline)
        found.update(token.string for token in tokens if token.type == tokenize.NAME)
    return found
