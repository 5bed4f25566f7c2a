"""Which statements of a class body make up a member, and the child's members laid over the parent's.

Statements that bind a name together are one member: a property with its setter, the overloads of a method, the
branches of an `if`.  A child's member takes the place of the parent's member of that name; what is new comes after.
Where that would change what code in the class body reads, `classscope` asks for the place that Python itself gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.fragment import Splice, splice, split_lines
from patchgen.compiler.classes.statement import Statement


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
        certain = {
            name
            for statement in self.statements
            if statement.is_certain
            for name in statement.names
        }
        return self.names <= certain


def members(statements: Sequence[Statement]) -> tuple[Member, ...]:
    """The members of a class body, in the order of their first statements."""
    groups: list[list[Statement]] = []
    for number, statement in enumerate(statements):
        if groups and _describes(statement, statements[number - 1]):
            next(group for group in groups if statements[number - 1] in group).append(statement)
            continue
        names = set(statement.names)
        sharing = [group for group in groups if names & {name for s in group for name in s.names}]
        for group in sharing:
            groups.remove(group)
        groups.append([*(s for group in sharing for s in group), statement])
    found = [
        Member(frozenset(n for s in group for n in s.names), _ordered(statements, group))
        for group in groups
    ]
    position = {statement.key: number for number, statement in enumerate(statements)}
    return tuple(sorted(found, key=lambda member: position[member.key]))


def _ordered(statements: Sequence[Statement], group: Sequence[Statement]) -> tuple[Statement, ...]:
    return tuple(statement for statement in statements if statement in group)


def _describes(statement: Statement, above: Statement) -> bool:
    """Whether `statement` is a string below an attribute, which documents it."""
    node = statement.node
    is_string = (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return is_string and isinstance(above.node, ast.Assign | ast.AnnAssign)


def lay(
    child: Sequence[Statement], parent: Sequence[Statement], after: frozenset[tuple[int, int]]
) -> tuple[Statement, ...]:
    """The class body of the child over that of the parent.

    `after` holds the keys of child's members that come after the whole parent, whose members then stay: this is what
    Python does, and the way out where a member cannot stand in the parent's place.
    """
    parents = members(parent)
    own = frozenset(name for statement in child for name in statement.names)
    anchored: dict[tuple[int, int], list[Statement]] = {}
    new: list[Statement] = []
    for member in members(child):
        hit = [other for other in parents if other.names & member.names]
        partly = any(other.names - own for other in hit) or not (
            member.is_certain or _all_bare(member, *hit)
        )
        stays = (
            member.key in after or partly or any(_acts_on_others(other, parents) for other in hit)
        )
        if not hit or stays:
            new += member.statements
        else:
            anchored.setdefault(hit[0].key, []).extend(_in_place_of(member, hit[0]))
            for other in hit[1:]:
                anchored.setdefault(other.key, [])
    return tuple(_laid(parent, parents, anchored)) + tuple(_in_order(child, new))


def _laid(
    parent: Sequence[Statement],
    parents: Sequence[Member],
    anchored: dict[tuple[int, int], list[Statement]],
) -> Iterable[Statement]:
    replaced = {
        s.key: member.key for member in parents if member.key in anchored for s in member.statements
    }
    for statement in parent:
        if statement.key not in replaced:
            yield statement
        elif replaced[statement.key] == statement.key:
            yield from _with_leading_of(statement, anchored[statement.key])


def _with_leading_of(old: Statement, new: Sequence[Statement]) -> Iterable[Statement]:
    """`new` in the place of `old`: its own comments, and at least the blank lines that stood there."""
    for number, statement in enumerate(new):
        if number == 0 and not statement.leading.strip():
            statement = replace(statement, leading=_blank_lines(old.leading))
        yield statement


def _blank_lines(leading: str) -> str:
    return "".join(line for line in split_lines(leading) if not line.strip())


def _in_order(child: Sequence[Statement], chosen: Sequence[Statement]) -> Iterable[Statement]:
    keys = {statement.key for statement in chosen}
    return (statement for statement in child if statement.key in keys)


def _all_bare(*members: Member) -> bool:
    """`x: T` over `x: S`; over a value it leaves that as it is."""
    return all(_is_bare(statement) for member in members for statement in member.statements)


def _acts_on_others(member: Member, parents: Sequence[Member]) -> bool:
    """Whether making the member may change another one, as `@f.register` does: then it cannot be left out."""
    others = {name for other in parents for name in other.names} - member.names
    for statement in member.statements:
        node = statement.node
        made: list[ast.AST] = list(getattr(node, "decorator_list", []))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        if any(isinstance(n, ast.Name) and n.id in others for part in made for n in ast.walk(part)):
            return True
    return False


def _is_bare(statement: Statement) -> bool:
    return isinstance(statement.node, ast.AnnAssign) and statement.node.value is None


def _in_place_of(member: Member, parent: Member) -> tuple[Statement, ...]:
    """`x = v` over `x: T = u` is `x: T = v`: annotations are inherited."""
    if len(member.statements) != 1 or len(parent.statements) != 1:
        return member.statements
    child, old = member.statements[0], parent.statements[0]
    if isinstance(child.node, ast.Assign) and isinstance(old.node, ast.AnnAssign):
        target = child.node.targets[0]
        if len(child.node.targets) == 1 and isinstance(target, ast.Name):
            end = child.fragment.span(target)[1]
            annotation = old.fragment.source(old.node.annotation)
            return (child.with_text(splice(child.text, [Splice(end, end, f": {annotation}")])),)
    return member.statements
