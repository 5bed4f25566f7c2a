"""Resolve every `super()` of a flat class: inline its target, or hoist it under a private name.

`super().m` in a method of `chain[i]` finds the first class behind `chain[i]` that has `m`.  If that
is a class of the chain, its `m` is inlined (`inline`) or hoisted (`hoist`), and then resolved in
turn at its own place in the chain.  If no class of the chain has `m`, `super()` stays: it goes on
to the bases.

    class Child(Parent):                    class Flat(nn.Module):
        def __init__(self, size):               def __init__(self, size):
            super().__init__(size)                  super().__init__()
            self.scale = 2                          self.size = size
                                                    self.scale = 2
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
from patchgen.compiler.supers.inline_safety import bind_safely
from patchgen.compiler.supers.reference import Asked, survives, write_reference
from patchgen.compiler.supers.supercall import (
    Misuse,
    SuperUse,
    find_class_reads,
    find_marker,
    find_methods,
    find_super_uses,
    is_tried,
)
from patchgen.facts.decorators import GIVEN_BY_STRICT
from patchgen.syntax.bound import FunctionNode
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.trees import list_arguments, mentions


@dataclass(frozen=True, slots=True)
class Resolved:
    """Statements with nothing left to resolve, and the problems found on the way."""

    statements: tuple[Statement, ...]
    problems: tuple[Problem, ...]


def resolve_supers(
    plan: ClassPlan, bodies: tuple[ClassBody, ...], order: Sequence[Statement]
) -> Resolved:
    """Resolve every `super()` of a class of the chain in the class body `order`."""
    work = _Resolver(plan, bodies, order, read_fields(plan, bodies))
    last = {name: place for place, statement in enumerate(order) for name in statement.names}
    done: list[Statement] = []
    waiting: list[tuple[int, list[Statement]]] = []
    for place, statement in enumerate(order):
        done.append(work.resolve(_shorten_class_reads(statement)))
        # Copies go below the whole member: a property stays together with its setter.
        until = max((last[name] for name in statement.names), default=place)
        waiting.append((until, work.take_copies()))
        for below, copies in waiting:
            if below == place:
                done += copies
    problems = list(work.problems)
    if not problems:
        problems += _find_left_over(done, bodies)
    return Resolved(tuple(done), tuple(problems))


def _find_left_over(done: Sequence[Statement], bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """Parents named where their members cannot be reached: in a nested class, a comprehension."""
    for statement in done:
        if find_marker(statement.node):
            what = "a parent that is merged is named where the flat class is not made yet"
            hint = "bind what is needed of it to a name of the class body"
            yield PatchgenError("PG210", bodies[statement.origin].at(statement), what, hint).problem


def _shorten_class_reads(statement: Statement) -> Statement:
    """Write `name` for `Parent.name` in the class body: `classscope` has put it above."""
    code = statement.fragment
    changes = [Splice(*code.span(node), node.attr) for node in find_class_reads(statement.node)]
    return statement.with_text(splice(code.text, changes))


class _Resolver:
    """Resolves statements one by one; each member is hoisted once."""

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
        self._private: set[str] = set()
        self._copies: list[Statement] = []

    def take_copies(self) -> list[Statement]:
        """The members that have been hoisted since the last call."""
        taken, self._copies = self._copies, []
        return taken

    def resolve(self, statement: Statement) -> Statement:
        """Replace each `super()` in `statement` that a class of the chain answers."""
        changes: list[Splice] = []
        for method in find_methods(statement.node):
            uses = tuple(find_super_uses(method, statement.origin, self._plan))
            for use in uses:
                try:
                    changes += self._resolve_use(use, uses, method, statement)
                except PatchgenError as error:
                    self.problems.append(error.problem)
        return statement.with_text(splice(statement.text, changes))

    def _resolve_use(
        self,
        use: SuperUse | Misuse,
        uses: Sequence[SuperUse | Misuse],
        method: FunctionNode,
        statement: Statement,
    ) -> Iterator[Splice]:
        """The changes for one use.  Raises PatchgenError where it cannot be resolved."""
        body = self._bodies[statement.origin]
        if isinstance(use, Misuse):
            is_last = statement.origin == len(self._bodies) - 1
            # Only the bases come after the last class of the chain: its `super` stays as it is.
            if not use.is_super or not is_last:
                raise PatchgenError("PG210", body.at(statement, use.node), use.what, use.hint)
            return
        target = self._find_target(use)
        at = body.at(statement, use.node)
        if finds_generated(use.name, use.start, target, self._bodies, self._fields):
            what = (
                f"super().{use.name} means the method that a decorator generates "
                "for a class that is merged"
            )
            raise PatchgenError("PG224", at, what, f"write out what {use.name} does")
        if target is None:
            self._require_in_bases(use, method, statement)
            yield from self._keep_super(use, statement)
            return

        asked = Asked(use, method, statement, target, at)
        asked.require_resolvable(self._bodies)
        inlined = self._try_to_inline(asked, uses)
        if inlined is None:
            yield self._refer(asked)
        else:
            span = statement.fragment.line_span(inlined.first, inlined.last)
            yield Splice(*span, inlined.text)

    def _find_target(self, use: SuperUse) -> int | None:
        """The place in the chain of the class that answers `use`."""
        places: Sequence[int] = range(use.start, len(self._bodies))
        if use.receiver is None:
            # `Parent.m` searches the bases of Parent, not the rest of the chain.
            places = search_places(self._bodies, use.start)
        for place in places:
            if use.name in self._bodies[place].members:
                return place
        return None

    def _keep_super(self, use: SuperUse, statement: Statement) -> Iterator[Splice]:
        """Write a use that no class of the chain answers.

        `super()` stays; a parent by name becomes the base.
        """
        code = statement.fragment
        # `Parent.m` has no object: it goes to what Parent would inherit it from.
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

    def _require_in_bases(self, use: SuperUse, method: FunctionNode, statement: Statement) -> None:
        """Check that the bases that stay may have what `use` asks for.

        Raises PatchgenError PG215 where Python would raise AttributeError.
        """
        body = self._bodies[statement.origin]
        # The author reckons with it that nothing is there.
        if self._may_be_given(use.name) or is_tried(use.node, method):
            return
        known = self._plan.beyond(body.block.symbol.module, use.name)
        if known is None:
            return
        near: set[str] = set()
        for other in self._bodies[use.start :]:
            near |= other.members
        what = f"no class that {body.own_name} inherits from has {use.name}"
        hint = did_you_mean(use.name, known | near)
        hint = hint or "leave it out, or inherit from the class that has it"
        raise PatchgenError("PG215", body.at(statement, use.node), what, hint)

    def _may_be_given(self, name: str) -> bool:
        """Whether a metaclass or a decorator of the chain may give its class a member `name`."""
        # A metaclass may give a class anything.
        if any(body.node.keywords for body in self._bodies):
            return True
        decorators: set[str] = set()
        for body in self._bodies:
            decorators.update(decorator.short_name for decorator in body.decorators)
        return "strict" in decorators and name in GIVEN_BY_STRICT

    def _try_to_inline(self, asked: Asked, uses: Sequence[SuperUse | Misuse]) -> Inlined | None:
        """The parent's method at the place of the call; None where it has to be hoisted."""
        use, method, child = asked.use, asked.method, asked.statement
        # A method under `if` is a part of a statement, which is not replaced by lines.
        if child.node is not method or not _is_alone(use, uses):
            return None
        site = find_call_site(method, use, child.fragment)
        if site is None:
            return None
        binders = self._bodies[asked.target].binders(use.name)
        if len(binders) != 1 or _has_super(site.call):
            return None
        # Its own `super()` is resolved at its own place in the chain, before it is copied.
        parent = self.resolve(binders[0])
        binding = bind_safely(site, use, parent.node)
        if binding is None:
            return None
        bound = [(name, _write_argument(value, child)) for name, value in binding.bound]
        return inline_call(site, child, parent, bound)

    def _refer(self, asked: Asked) -> Splice:
        """Refer to the member, which is hoisted unless it survives under its own name."""
        group = self._bodies[asked.target].binders(asked.use.name)
        has_own_name = survives(asked, group, self._order, self._plan)
        name = asked.use.name
        if not has_own_name:
            name = self._hoist(asked, group)
        # `self.m` would ask `__getattribute__`, where `super().m` does not.
        is_intercepted = any("__getattribute__" in body.names for body in self._bodies)
        # A subclass of the flat class may override the member, and `self.m` would call that one.
        is_qualified = has_own_name or is_intercepted
        return write_reference(asked, group, name, self._plan.name, is_qualified)

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
        # Few classes keep a member: the names of the others are not collected.
        taken = collect_identifiers(self._plan) | self._private
        private = make_private_name(name, owner, taken)
        # The name is known before the copies are resolved: they may ask for the same member.
        self._private.add(private)
        self._names[name, target] = private
        self._copies += [self.resolve(hoist(member, name, private)) for member in group]
        return private


def _has_super(call: ast.Call) -> bool:
    """Whether an argument of the call has a `super()` of its own."""
    return any(mentions(argument, "super") for argument in list_arguments(call))


def _is_alone(use: SuperUse, uses: Sequence[SuperUse | Misuse]) -> bool:
    """Whether the method asks for the member once.

    Inlined twice, the statements of a method could not be told apart.
    """
    alike = [other for other in uses if isinstance(other, SuperUse) and other.name == use.name]
    return len(alike) == 1


def _write_argument(value: ast.expr, child: Statement) -> str:
    """The text of an argument.

    A default comes from the parent, where only its value is known.
    """
    is_of_child = any(node is value for node in ast.walk(child.node))
    if not is_of_child:
        return ast.unparse(value)
    text = child.fragment.source(value)
    # Outside the brackets of the call, an expression ends with its line.
    if "\n" in text:
        return f"({text})"
    return text
