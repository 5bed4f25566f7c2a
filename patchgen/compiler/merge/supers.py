"""Resolve every `super()` of a flat class: inline its target, or keep it under a private name.

`super().m` in a method of `chain[i]` finds the first class behind `chain[i]` that has `m`.  If that
is a class of the chain, its `m` is inlined (`inline`) or kept beside the child's under a private
name, and then resolved in turn at its own level of the chain.  If no class of the chain has `m`,
`super()` stays: it goes on to the bases.

    class Child(Parent):                    class Flat(nn.Module):
        def __init__(self, size):               def __init__(self, size):
            super().__init__(size)                  super().__init__()
            self.scale = 2                          self.size = size
                                                    self.scale = 2
        def forward(self, x):
            return super().forward(x) * 2       def forward(self, x):
                                                    return self._forward_of_Parent(x) * 2

                                                def _forward_of_Parent(self, x):
                                                    return x * self.size
"""

from __future__ import annotations

import ast
import functools
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.merge.fields import Fields
from patchgen.compiler.merge.inline import find_call_site, inline
from patchgen.compiler.merge.members import ClassBody, Statement, group_by_name
from patchgen.compiler.merge.text import Splice, splice
from patchgen.compiler.merge.uses import Misuse, SuperUse, find_super_uses, is_written_at
from patchgen.compiler.plan.model import ClassPlan
from patchgen.facts.decorators import GIVEN_BY_STRICT
from patchgen.syntax.bound import local_names
from patchgen.syntax.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.text import read_tokens
from patchgen.syntax.trees import (
    Function,
    decorator_names,
    find_name,
    list_positional,
    short_name,
    walk,
    walk_all,
)

# These decorate the class's own method; a private copy of the parent's method does without.
_NOT_OF_A_COPY = frozenset({"auto_docstring", "abstractmethod"})
# Python decorates these by their name, which a copy does not have.
_DECORATED_BY_NAME = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})


def resolve_supers(
    plan: ClassPlan, bodies: Sequence[ClassBody], order: Sequence[Statement], fields: Fields
) -> tuple[tuple[Statement, ...], tuple[Problem, ...]]:
    """The class body `order` with every `super()` of the chain resolved, and the problems."""
    work = _Resolver(plan, bodies, order, fields)
    last: dict[str, int] = {}
    for number, statement in enumerate(order):
        last |= dict.fromkeys(statement.names, number)
    done = []
    waiting: dict[int, list[Statement]] = defaultdict(list)
    for number, statement in enumerate(order):
        done.append(work.resolve(statement))
        # Copies go below the whole member: a property stays together with its setter.
        below = max((last[name] for name in statement.names), default=number)
        copies = work.take_copies()
        waiting[below] += copies
        done += waiting[number]
    problems = dict.fromkeys(work.problems)
    return tuple(done), tuple(problems)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A use in `statement` that the class at `target` in the chain answers by `group`."""

    use: SuperUse
    statement: Statement
    target: int
    group: tuple[Statement, ...]
    at: Location


class _Resolver:
    """Resolves statements one by one; each member is kept once."""

    def __init__(
        self,
        plan: ClassPlan,
        bodies: Sequence[ClassBody],
        order: Sequence[Statement],
        fields: Fields,
    ):
        self.problems: list[Problem] = []
        self._plan = plan
        self._bodies = bodies
        self._fields = fields
        self._order = group_by_name(order)
        self._private: dict[tuple[str, int], str] = {}
        self._copies: list[Statement] = []

    def take_copies(self) -> list[Statement]:
        """The members that have been kept since the last call."""
        taken, self._copies = self._copies, []
        return taken

    def resolve(self, statement: Statement) -> Statement:
        """Replace each `super()` in `statement` that a class of the chain answers."""
        changes: list[Splice] = []
        uses = find_super_uses(statement)
        for use in uses:
            try:
                changes += self._resolve_use(use, uses, statement)
            except PatchgenError as error:
                self.problems.append(error.problem)
        return statement.with_text(splice(statement.text, changes))

    def _resolve_use(
        self, use: SuperUse | Misuse, uses: Sequence[SuperUse | Misuse], statement: Statement
    ) -> Iterator[Splice]:
        """The changes for one use.  Raises PatchgenError where it cannot be resolved."""
        bodies = self._bodies
        body = bodies[statement.origin]
        at = body.at(statement, use.node)
        if isinstance(use, Misuse):
            is_last = statement.origin == len(bodies) - 1
            # Only the bases come after the last class of the chain: its `super` stays as it is.
            if not use.is_super or not is_last:
                raise PatchgenError(use.code, at, use.what, use.hint)
            return
        own = ("", self._plan.name, body.block.name)
        # `super(Base, self)` of a base that stays means what it says in the flat class, too.
        if use.owner not in own and not use.owner.startswith("__parent_"):
            return
        target, base = self._find_target(use)
        # Without a written method, the search goes through the whole chain.
        passed = range(use.start, len(bodies) if target is None else target)
        if any(use.name in self._fields.generated(level) for level in passed):
            what = f"{use.what} means the method that a decorator generates for a merged class"
            raise PatchgenError("PG224", at, what, f"write out what {use.name} does")
        if target is None:
            if use.by_name and use.misuse:
                raise PatchgenError(use.misuse.code, at, use.misuse.what, use.misuse.hint)
            yield from self._keep(use, base, statement, at)
            return
        owner = bodies[target]
        asked = _Asked(use, statement, target, owner.binders(use.name), at)
        is_static = "staticmethod" in decorator_names(asked.group[0].node)
        # `Parent.m(x)` of a static method needs no object.
        if use.misuse and not (use.by_name and is_static):
            raise PatchgenError(use.misuse.code, at, use.misuse.what, use.misuse.hint)
        if any(binder.removes for binder in asked.group):
            what = f"{use.what} has been removed by {owner.own_name}"
            raise PatchgenError("PG231", at, what, "leave the call out")
        if use.by_name and is_static:
            yield self._refer_to_static(asked)
        else:
            yield self._inline(asked, uses) or self._refer(asked)

    def _find_target(self, use: SuperUse) -> tuple[int | None, str | None]:
        """The level in the chain of the class that answers `use`, or the base that goes on."""
        if not use.by_name:
            levels = range(use.start, len(self._bodies))
            return next((n for n in levels if use.name in self._bodies[n].members), None), None
        # `Parent.m` searches the bases of Parent, not the rest of the chain.
        inside, base = self._plan.searches[use.start]
        target = next((n for n in inside if use.name in self._bodies[n].members), None)
        return target, base

    def _keep(
        self, use: SuperUse, base: str | None, statement: Statement, at: Location
    ) -> Iterator[Splice]:
        """Write a use that no class of the chain answers, by `super()` or by the base."""
        if not use.by_name:
            self._require_in_bases(use, statement, at)
            if use.owner:
                plain = use.misuse is None
                of = "" if plain else f"{self._plan.name}, {_read_receiver(statement.node)}"
                yield Splice(*statement.fragment.span(use.node.value), f"super({of})")
        elif base is None or base not in (*self._plan.bases, "object"):
            parent = self._bodies[use.start].own_name
            what = f"{parent}.{use.name} is inherited from outside the classes that are merged"
            raise PatchgenError("PG212", at, what, f"write super().{use.name}")
        else:
            yield Splice(*statement.fragment.span(use.node.value), base)

    def _require_in_bases(self, use: SuperUse, statement: Statement, at: Location) -> None:
        """Raise PG215 where the bases that stay lack what `use` asks for."""
        bodies = self._bodies
        asking = bodies[statement.origin]
        beyond = self._plan.beyond(asking.block.symbol.module, use.name)
        if beyond is None or any(body.node.keywords for body in bodies):
            return  # a metaclass may give a class anything
        decorators: list[str] = []
        for body in bodies:
            decorators += [decorator.short_name for decorator in body.decorators]
        is_given = "strict" in decorators and use.name in GIVEN_BY_STRICT
        # Under `try` and `suppress`, the author reckons with it that nothing is there.
        if is_given or any(map(_catches, walk(statement.node))):
            return
        # What nn.Module has besides resembles many a name: only a swapped letter counts there.
        letters = sorted(use.name)
        near = {name for name in beyond if sorted(name) == letters}
        for body in bodies[use.start :]:
            near.update(body.members)
        what = f"no class that {asking.own_name} inherits from has {use.name}"
        hint = did_you_mean(use.name, near)
        hint = hint or "leave it out, or inherit from the class that has it"
        raise PatchgenError("PG215", at, what, hint)

    def _inline(self, asked: _Asked, uses: Sequence[SuperUse | Misuse]) -> Splice | None:
        """The parent's method at the level of the call; None where it has to be kept."""
        # Inlined twice, the statements of a method could not be told apart.
        alike = [use for use in uses if isinstance(use, SuperUse) and use.name == asked.use.name]
        site = find_call_site(asked.use, asked.statement)
        if site is None or len(alike) > 1 or len(asked.group) > 1:
            return None
        # Its own `super()` is resolved at its own level of the chain, before it is copied.
        return inline(site, asked.use, asked.statement, self.resolve(asked.group[0]))

    def _refer_to_static(self, asked: _Asked) -> Splice:
        """`Parent.m(x)` as `Flat.m(x)`, or as `Flat._m_of_Parent(x)` where `m` is overridden."""
        code = asked.statement.fragment
        method = asked.statement.node
        flat = self._plan.name
        assert isinstance(method, Function)
        if not is_written_at(code, asked.use.node) or flat in local_names(method):
            what = f"{asked.use.what} stands where {flat} cannot be named"
            hint = f"bind it to a name on a line before; no local variable may be called {flat}"
            raise PatchgenError("PG211", asked.at, what, hint)
        kept = [statement.key for statement in self._order.get(asked.use.name, ())]
        is_kept = kept == [statement.key for statement in asked.group]
        name = asked.use.name if is_kept else self._keep_privately(asked)
        return Splice(*code.span(asked.use.node), f"{flat}.{name}")

    def _refer(self, asked: _Asked) -> Splice:
        """Refer to the member, which is kept under a private name unless it has its own."""
        use = asked.use
        code = asked.statement.fragment
        if not is_written_at(code, use.node):
            what = f"{use.what} stands in a string, where it cannot be replaced"
            raise PatchgenError("PG211", asked.at, what, "bind it to a name on a line before")
        decorators = decorator_names(asked.group[0].node)
        if use.by_name and decorators & {"staticmethod", "classmethod"}:
            what = f"{use.name} is not called on an object"
            raise PatchgenError("PG210", asked.at, what, f"write super().{use.name}")
        start, end = code.span(use.node)
        flat = self._plan.name
        if self._survives(asked, code):
            # A subclass of the flat class may override it, and `self.m` would call that one.
            if use.by_name:
                return Splice(*code.span(use.node.value), flat)
            receiver = _read_receiver(asked.statement.node)
            is_last = use.call is None or not (use.call.args or use.call.keywords)
            opening = receiver if is_last else f"{receiver}, "
            # The splice takes the opening bracket along.
            return Splice(start, end + 1, f"{flat}.{use.name}({opening}")
        return self._refer_to_copy(asked, self._keep_privately(asked))

    def _refer_to_copy(self, asked: _Asked, name: str) -> Splice:
        """Refer to the member by the private `name` under which it is kept."""
        use = asked.use
        code = asked.statement.fragment
        receiver = _read_receiver(asked.statement.node)
        member = f"{receiver}.{name}"
        start, end = code.span(use.node)
        if not use.by_name or use.call is None:
            return Splice(start, end, member)
        # `Parent.m(self, x)` becomes `self._m_of_Parent(x)`.
        first, *others = use.call.args
        values: list[ast.expr | ast.keyword] = [*others, *use.call.keywords]
        if not values:
            _, end = code.span(first)
        # The position of `**kwargs` is that of the name behind the stars.
        elif isinstance(values[0], ast.keyword) and values[0].arg is None:
            return Splice(start, end, f"{self._plan.name}.{name}")
        else:
            end, _ = code.span(values[0])
        return Splice(start, end, f"{member}(")

    def _survives(self, asked: _Asked, code: Fragment) -> bool:
        """Whether the flat class keeps the member, as a plain method, under its own name.

        The method that uses it must be able to name the flat class.
        """
        use = asked.use
        # `f = super().m` is bound to the object, which `Flat.m` is not.
        _, end = code.span(use.node)
        if use.call is None or not code.text.startswith("(", end):
            return False
        # An override has taken the name.
        kept = [statement.key for statement in self._order.get(use.name, ())]
        if kept != [statement.key for statement in asked.group]:
            return False
        method = asked.statement.node
        node = asked.group[0].node
        if len(kept) > 1 or not isinstance(node, Function) or node.decorator_list:
            return False
        return isinstance(method, Function) and self._plan.name not in local_names(method)

    def _keep_privately(self, asked: _Asked) -> str:
        """The private name under which the member is kept."""
        name = asked.use.name
        target = asked.target
        if (name, target) in self._private:
            return self._private[name, target]
        owner = self._bodies[target].own_name
        kept = {statement.key for statement in self._order.get(name, ())}
        is_kept = any(statement.key in kept for statement in asked.group)
        why = _find_obstacle(asked.group, name, is_kept)
        if why:
            what = f"{name} of {owner} cannot be kept under a private name: {why}"
            raise PatchgenError("PG214", asked.at, what, f"write {name} out in the child")
        private = self._make_private_name(name, owner)
        # The name is known before the copies are resolved: they may ask for the same member.
        self._private[name, target] = private
        copies = [_copy(member, name, private) for member in asked.group]
        self._copies += [self.resolve(copy) for copy in copies]
        return private

    def _make_private_name(self, name: str, owner: str) -> str:
        """`_name_of_Owner`, with a number if the chain has that identifier."""
        private = wanted = f"_{name.strip('_') or 'method'}_of_{owner.strip('_')}"
        taken = set(self._private.values())
        taken.update(*(_identifiers_in(block.text) for block in self._plan.chain))
        # A number makes the name free; the first copy goes without.
        number = 2
        while private in taken:
            private, number = f"{wanted}_{number}", number + 1
        return private


def _catches(node: ast.AST) -> bool:
    """Whether an error of the statements under `node` may be caught."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return any("suppress" in ast.unparse(item.context_expr) for item in node.items)
    return isinstance(node, ast.Try | ast.TryStar)


def _read_receiver(node: ast.stmt) -> str:
    """What a method that uses `super()` calls its object."""
    assert isinstance(node, Function)
    return list_positional(node.args)[0].arg


@functools.lru_cache(maxsize=128)  # Each member that is kept asks for those of the same classes.
def _identifiers_in(text: str) -> frozenset[str]:
    tokens = read_tokens(text)
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME)


# Copies


def _find_obstacle(group: Sequence[Statement], name: str, is_kept: bool) -> str | None:
    """Why a copy of the member would not behave as the member does; None when it does."""
    if name in _DECORATED_BY_NAME:
        return "Python knows it by its name"
    for member in group:
        if len(member.names) > 1:
            return "it is bound together with other names"
        if "cached_property" in map(short_name, getattr(member.node, "decorator_list", [])):
            return "its decorator stores under the name that it has"
        # Both the member and its copy would stay: the value would be computed for each of them.
        if is_kept and not isinstance(member.node, Function) and not _is_constant(member.node):
            return "its value would be made twice"
    return None


def _is_constant(node: ast.stmt) -> bool:
    """Whether `node` assigns a constant, or a tuple of constants.

    Of a list there would be two, which shows where one of them is changed.
    """
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    kinds = ast.Constant | ast.Tuple
    return value is not None and all(isinstance(child, kinds) for child in walk(value))


def _copy(member: Statement, name: str, private: str) -> Statement:
    """A copy of `member`, which binds `name`, that binds and reads `private` instead."""
    node = member.node
    code = member.fragment
    changes: list[Splice] = []
    renamed: list[ast.AST] = [node]
    if isinstance(node, Function):
        line, start, end = find_name(code.lines, node)
        line_start = code.line_span(line, line)[0]
        changes.append(Splice(line_start + start, line_start + end, private))
        # A property and its setter name each other in the class body.
        renamed = list(node.decorator_list)
        for decorator in node.decorator_list:
            if short_name(decorator) in _NOT_OF_A_COPY:
                last = decorator.end_lineno or decorator.lineno
                changes.append(Splice(*code.line_span(decorator.lineno, last), ""))
    for part in walk_all(renamed):
        if isinstance(part, ast.Name) and part.id == name:
            changes.append(Splice(*code.span(part), private))
    text = splice(code.text, changes)
    return replace(member.with_text(text), names=(private,), leading="\n", is_copy=True)
