"""Group the statements of a class body into members, and lay the child's members over the parent's.

Statements that bind a name together are one member: a property with its setter, the overloads of a
method, the branches of an `if`.  A child's member replaces the parent's member of that name; new
members come after.

    class Parent:           class Child(Parent):        class Flat:
        size = 1                depth = 2                   size = 3
        scale = 2               size = 3                    scale = 2
                                                            depth = 2

Where that would change what code in the class body reads, `classscope` asks for the place that
Python itself gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.fragment import Splice, splice, split_lines
from patchgen.compiler.classes.statement import Statement
from patchgen.syntax.trees import names_within


@dataclass(frozen=True, slots=True)
class Member:
    """Statements of one class body that share names."""

    names: frozenset[str]
    statements: tuple[Statement, ...]

    @property
    def key(self) -> tuple[int, int]:
        return self.statements[0].key

    @property
    def is_certain(self) -> bool:
        """Whether the class has all its names because of it."""
        certain: set[str] = set()
        for statement in self.statements:
            if statement.is_certain:
                certain.update(statement.names)
        return self.names <= certain


def members(statements: Sequence[Statement]) -> tuple[Member, ...]:
    """The members of a class body, in the order of their first statements."""
    groups: list[list[Statement]] = []
    for number, statement in enumerate(statements):
        above = statements[number - 1]
        if groups and _describes(statement, above):
            # A string below an attribute belongs to the group of the attribute.
            owner = next(group for group in groups if above in group)
            owner.append(statement)
            continue
        joined = _take_sharing(groups, set(statement.names))
        groups.append([*joined, statement])
    found = [Member(_bound_by(group), _sort(statements, group)) for group in groups]
    # Joined groups stand last, whatever their first statement is.
    position = {statement.key: number for number, statement in enumerate(statements)}
    return tuple(sorted(found, key=lambda member: position[member.key]))


def _take_sharing(groups: list[list[Statement]], names: set[str]) -> list[Statement]:
    """Remove the groups that bind one of `names`, and give their statements.

    A statement that binds two names can join two groups.
    """
    taken: list[Statement] = []
    for group in list(groups):
        if names & _bound_by(group):
            groups.remove(group)
            taken += group
    return taken


def _bound_by(statements: Sequence[Statement]) -> frozenset[str]:
    """All names that the statements bind."""
    found: set[str] = set()
    for statement in statements:
        found.update(statement.names)
    return frozenset(found)


def _sort(statements: Sequence[Statement], group: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements of `group` in the order of the class body."""
    return tuple(statement for statement in statements if statement in group)


def _describes(statement: Statement, above: Statement) -> bool:
    """Whether `statement` is a string below an attribute, which documents it."""
    if not isinstance(above.node, ast.Assign | ast.AnnAssign):
        return False
    match statement.node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def lay(
    child: Sequence[Statement], parent: Sequence[Statement], after: frozenset[tuple[int, int]]
) -> tuple[Statement, ...]:
    """Lay the class body of the child over that of the parent.

    `after` holds the keys of child's members that come after the whole parent, whose members then
    stay: this is what Python does, and the way out where a member cannot stand in the parent's
    place.
    """
    parents = members(parent)
    own = _bound_by(child)
    anchored: dict[tuple[int, int], list[Statement]] = {}
    new: set[tuple[int, int]] = set()
    for member in members(child):
        replaced = [other for other in parents if other.names & member.names]
        is_new = not replaced or _must_follow(member, replaced, parents, own, after)
        if is_new:
            new.update(statement.key for statement in member.statements)
            continue
        # The member stands where the first of them stood.
        first, *others = replaced
        anchored.setdefault(first.key, []).extend(_adapt(member, first))
        for other in others:
            anchored.setdefault(other.key, [])
    # The new members keep the order in which the child has their statements.
    below = [statement for statement in child if statement.key in new]
    return (*_lay(parent, parents, anchored), *below)


def _must_follow(
    member: Member,
    replaced: Sequence[Member],
    parents: Sequence[Member],
    own: frozenset[str],
    after: frozenset[tuple[int, int]],
) -> bool:
    """Whether a child's member has to come after the parent, whose members then stay.

    `own` are all names of the child.
    """
    if member.key in after:
        return True
    # A branch that is not taken leaves the parent's value.
    if not member.is_certain and not _all_bare(member, *replaced):
        return True
    for other in replaced:
        # The parent's member binds more than the child replaces.
        binds_more = bool(other.names - own)
        if binds_more or _acts_on_others(other, parents):
            return True
    return False


def _lay(
    parent: Sequence[Statement],
    parents: Sequence[Member],
    anchored: dict[tuple[int, int], list[Statement]],
) -> Iterable[Statement]:
    """The parent's statements with the `anchored` ones in the place of those that they replace."""
    replaced: dict[tuple[int, int], tuple[int, int]] = {}
    for member in parents:
        if member.key in anchored:
            for statement in member.statements:
                replaced[statement.key] = member.key
    for statement in parent:
        if statement.key not in replaced:
            yield statement
        elif replaced[statement.key] == statement.key:
            yield from _take_leading(statement, anchored[statement.key])


def _take_leading(old: Statement, new: Sequence[Statement]) -> Iterable[Statement]:
    """`new` in the place of `old`: its own comments, or else the blank lines that stood there."""
    for number, statement in enumerate(new):
        # A comment of its own keeps its place above the statement.
        if number == 0 and not statement.leading.strip():
            statement = replace(statement, leading=_blank_lines(old.leading))
        yield statement


def _blank_lines(leading: str) -> str:
    """The blank lines of what stands above a statement."""
    return "".join(line for line in split_lines(leading) if not line.strip())


def _all_bare(*members: Member) -> bool:
    """`x: T` over `x: S`; over a value it leaves that as it is."""
    for member in members:
        for statement in member.statements:
            if not _is_bare(statement):
                return False
    return True


def _acts_on_others(member: Member, parents: Sequence[Member]) -> bool:
    """Whether making the member may change another one, as `@f.register` does: then it stays."""
    others: set[str] = set()
    for other in parents:
        others |= other.names - member.names
    for statement in member.statements:
        for part in _find_called_parts(statement.node):
            named = {name.id for name in names_within(part)}
            if named & others:
                return True
    return False


def _find_called_parts(node: ast.stmt) -> list[ast.AST]:
    """The decorators of a definition, or the calls in any other statement."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return list(node.decorator_list)
    return [call for call in ast.walk(node) if isinstance(call, ast.Call)]


def _is_bare(statement: Statement) -> bool:
    """Whether a statement is `x: T`, which binds nothing."""
    return isinstance(statement.node, ast.AnnAssign) and statement.node.value is None


def _adapt(member: Member, parent: Member) -> tuple[Statement, ...]:
    """The member's statements in the place of `parent`.

    `x = v` over `x: T = u` is `x: T = v`: annotations are inherited.
    """
    # Only single assignments can take the annotation over.
    if len(member.statements) != 1 or len(parent.statements) != 1:
        return member.statements
    child, old = member.statements[0], parent.statements[0]
    match child.node, old.node:
        case ast.Assign(targets=[ast.Name() as target]), ast.AnnAssign(annotation=annotation):
            end = child.fragment.span(target)[1]
            written = Splice(end, end, f": {old.fragment.source(annotation)}")
            return (child.with_text(splice(child.text, [written])),)
        case _:
            return member.statements
