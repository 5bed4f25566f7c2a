"""Every `super()` of a flat class resolved: written out, or its target kept beside it under a private name.

A method of `chain[i]` finds by `super().m` the first class behind `chain[i]` that has m.  Where that is a class of the
chain, its m is inlined (`inline`) or hoisted (`hoist`), and is resolved in turn at its own place in the chain.  Where
no class of the chain has m, `super()` stays: it goes on to the bases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.ancestry import find_outer_base, search_places
from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fields import Fields, finds_generated, read_fields
from patchgen.compiler.classes.fragment import Splice, splice
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.model import ClassPlan
from patchgen.compiler.supers.hoist import (
    collect_identifiers,
    find_obstacle,
    hoist,
    make_private_name,
)
from patchgen.compiler.supers.inline import Inlined, find_call_site, inline_call
from patchgen.compiler.supers.inline_safety import Site, bind_safely
from patchgen.compiler.supers.reference import Asked, reference, survives
from patchgen.compiler.supers.supercall import (
    Misuse,
    SuperUse,
    find_class_reads,
    find_marker,
    find_methods,
    find_super_uses,
    is_tried,
)
from patchgen.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.scopes import FunctionNode

# `@strict` gives these to the class below it.
_ADDED_BY_STRICT = ("validate", "__post_init__")


@dataclass(frozen=True, slots=True)
class Resolved:
    """Statements with nothing left to resolve, and what went wrong."""

    statements: tuple[Statement, ...]
    problems: tuple[Problem, ...]


def resolve_supers(
    plan: ClassPlan, bodies: tuple[ClassBody, ...], order: Sequence[Statement]
) -> Resolved:
    """The class body `order` with every `super()` of a class of the chain resolved."""
    work = _Resolver(plan, bodies, order, read_fields(plan, bodies))
    last = {name: place for place, statement in enumerate(order) for name in statement.names}
    done: list[Statement] = []
    waiting: list[tuple[int, list[Statement]]] = []
    for place, statement in enumerate(order):
        done.append(work.resolved(_with_class_reads(statement)))
        # Below the whole member: a property stays together with its setter.
        waiting.append(
            (max((last[name] for name in statement.names), default=place), work.take_copies())
        )
        done += [copy for until, copies in waiting if until == place for copy in copies]
    return Resolved(
        tuple(done), (*work.problems, *(_left_over(done, bodies) if not work.problems else ()))
    )


def _left_over(done: Sequence[Statement], bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """Parents by name at places where their members cannot be reached: a nested class, a comprehension."""
    for statement in done:
        if find_marker(statement.node):
            what = "a parent that is merged is named where the flat class is not made yet"
            hint = "bind what is needed of it to a name of the class body"
            yield PatchgenError("PG210", bodies[statement.origin].at(statement), what, hint).problem


def _with_class_reads(statement: Statement) -> Statement:
    """What `statement` reads of a parent in the class body stands above it, as `classscope` saw to."""
    code = statement.fragment
    changes = [Splice(*code.span(node), node.attr) for node in find_class_reads(statement.node)]
    return statement.with_text(splice(code.text, changes))


class _Resolver:
    """Remembers what has been hoisted, so that it is hoisted once."""

    def __init__(
        self,
        plan: ClassPlan,
        bodies: tuple[ClassBody, ...],
        order: Sequence[Statement],
        fields: Fields,
    ):
        self.problems: list[Problem] = []
        self._plan, self._bodies, self._order, self._fields = plan, bodies, order, fields
        self._names: dict[tuple[str, int], str] = {}
        self._taken = collect_identifiers(plan)
        self._copies: list[Statement] = []

    def take_copies(self) -> list[Statement]:
        """What has been hoisted since the last time."""
        taken, self._copies = self._copies, []
        return taken

    def resolved(self, statement: Statement) -> Statement:
        """`statement` with each `super()` that a class of the chain answers replaced."""
        changes: list[Splice] = []
        for method in find_methods(statement.node):
            uses = tuple(find_super_uses(method, statement.origin, self._plan))
            for use in uses:
                try:
                    changes += self._changes(use, uses, method, statement)
                except PatchgenError as error:
                    self.problems.append(error.problem)
        return statement.with_text(splice(statement.text, changes))

    def _changes(
        self,
        use: SuperUse | Misuse,
        uses: Sequence[SuperUse | Misuse],
        method: FunctionNode,
        statement: Statement,
    ) -> Iterator[Splice]:
        body = self._bodies[statement.origin]
        if isinstance(use, Misuse):
            # Behind the last class of the chain come the bases, where `super` may be used as it likes.
            if not use.is_super or statement.origin < len(self._bodies) - 1:
                raise PatchgenError("PG210", body.at(statement, use.node), use.what, use.hint)
            return
        target = self._target(use)
        if finds_generated(use.name, use.start, target, self._bodies, self._fields):
            what = f"super().{use.name} means the method that a decorator generates for a class that is merged"
            raise PatchgenError(
                "PG224", body.at(statement, use.node), what, f"write out what {use.name} does"
            )
        if target is None:
            self._require_beyond(use, method, statement)
            yield from self._beyond(use, statement)
            return
        asked = Asked(use, method, statement, target, body.at(statement, use.node))
        asked.require_resolvable(self._bodies)
        alone = sum(isinstance(other, SuperUse) and other.name == use.name for other in uses) == 1
        site = (
            find_call_site(method, use, statement.fragment)
            if alone and statement.node is method
            else None
        )
        written = self._inline(use, site, statement, target) if site else None
        if site and written:
            yield Splice(*statement.fragment.line_span(written.first, written.last), written.text)
            return
        yield self._reference(asked)

    def _target(self, use: SuperUse) -> int | None:
        by_name = use.receiver is None
        places = (
            search_places(self._bodies, use.start)
            if by_name
            else range(use.start, len(self._bodies))
        )
        return next((place for place in places if use.name in self._bodies[place].members), None)

    def _beyond(self, use: SuperUse, statement: Statement) -> Iterator[Splice]:
        """A use that no class of the chain answers: `super()` stays, a parent by name becomes the base."""
        code = statement.fragment
        if use.receiver is None:
            base = find_outer_base(self._plan, self._bodies, use.start)
            if base is None:
                at = self._bodies[statement.origin].at(statement, use.node)
                own = self._bodies[use.start].own_name
                what = f"{own}.{use.name} is inherited from outside the classes that are merged"
                raise PatchgenError("PG212", at, what, f"write super().{use.name}")
            yield Splice(*code.span(use.node.value), base)
        elif use.marker is not None:
            yield Splice(*code.span(use.marker), self._plan.name)

    def _require_beyond(self, use: SuperUse, method: FunctionNode, statement: Statement) -> None:
        """Nothing where the bases that stay may have what `use` asks for.

        Raises PatchgenError PG215 where Python would raise AttributeError.
        """
        body = self._bodies[statement.origin]
        made = any(b.node.keywords for b in self._bodies)  # a metaclass may give a class anything
        strict = any(d.short_name == "strict" for b in self._bodies for d in b.decorators)
        if made or (strict and use.name in _ADDED_BY_STRICT) or is_tried(use.node, method):
            return
        known = self._plan.beyond(body.block.symbol.module, use.name)
        if known is None:
            return
        near = {
            name
            for place in range(use.start, len(self._bodies))
            for name in self._bodies[place].members
        }
        what = f"no class that {body.own_name} inherits from has {use.name}"
        hint = (
            did_you_mean(use.name, known | near)
            or "leave it out, or inherit from the class that has it"
        )
        raise PatchgenError("PG215", body.at(statement, use.node), what, hint)

    def _inline(self, use: SuperUse, site: Site, child: Statement, target: int) -> Inlined | None:
        """The parent's method written out; None where it has to be hoisted."""
        binders = self._bodies[target].binders(use.name)
        if len(binders) != 1 or _has_super(site.call):
            return None
        parent = self.resolved(binders[0])
        bound = bind_safely(site, use, parent.node)
        if bound is None:
            return None
        return inline_call(
            site, child, parent, [(name, _argument(value, child)) for name, value in bound.bound]
        )

    def _reference(self, asked: Asked) -> Splice:
        """The use replaced by a reference to the member, which is hoisted unless it survives under its own name."""
        group = self._bodies[asked.target].binders(asked.use.name)
        own = survives(asked, group, self._order, self._plan)
        name = asked.use.name if own else self._hoist(asked, group)
        # `self.m` would ask `__getattribute__`, where `super().m` does not.
        intercepted = any("__getattribute__" in body.names for body in self._bodies)
        return reference(asked, group, name, self._plan.name, own or intercepted)

    def _hoist(self, asked: Asked, group: Sequence[Statement]) -> str:
        """The private name under which the member is kept."""
        name, target = asked.use.name, asked.target
        if (name, target) in self._names:
            return self._names[name, target]
        owner = self._bodies[target].own_name
        why = find_obstacle(group, name, self._order)
        if why:
            what = f"{name} of {owner} cannot be kept under a private name: {why}"
            raise PatchgenError("PG214", asked.at, what, f"write {name} out in the child")
        private = make_private_name(name, owner, self._taken)
        self._taken |= {private}
        self._names[name, target] = private
        self._copies += [self.resolved(hoist(member, name, private)) for member in group]
        return private


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
