"""Whether the names in a merged method still mean what they meant to the side that wrote them.

A merge can fit and be wrong: upstream assigns another value to a variable, and the declaration's
statement below goes on to read it.  So for each statement that one side wrote, the names that it
reads must come from the same assignments as in that side's own version.  What is called may be
given more or fewer arguments; another value is refused:

    ours      scores = scores * self.scale            written below  scores = q @ k
    theirs    scores = (q @ k) * self.scale           so `scores` means something else now
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.align.suites import suites_of
from patchgen.author.rebase.pairing import alikeness
from patchgen.author.rebase.sides import Clash
from patchgen.syntax.bound import bound_names, local_names
from patchgen.syntax.same import Function, plain_text, without_docstring

_ENOUGH = 0.5
_ALWAYS = frozenset(dir(builtins)) | {"__class__", "super"}


@dataclass(frozen=True, eq=False)
class _Spot:
    """A simple statement, or the head of a compound one, in the order of the text."""

    node: ast.stmt
    text: str
    reads: frozenset[str]
    binds: frozenset[str]


@dataclass(frozen=True)
class _Version:
    """One version of a method as spots in order."""

    function: Function
    spots: tuple[_Spot, ...]

    def binder(self, name: str, place: int) -> _Spot | str | None:
        """What gives `name` its value for the spot at `place`: a spot, "parameter", or nothing."""
        for spot in reversed(self.spots[:place]):
            if name in spot.binds:
                return spot
        return "parameter" if name in _parameters(self.function) else None


def changed_meanings(
    merged: Function, ours: Function, theirs: Function, known: frozenset[str]
) -> tuple[Clash, ...]:
    """What is in doubt in a merged method; `known` are the global names that it may read."""
    versions = [_version(one) for one in (merged, ours, theirs)]
    found = [*_unbound(versions[0], versions[1:], known)]
    found += _moved_meanings(versions[0], versions[1], versions[2], "the declaration")
    found += _moved_meanings(versions[0], versions[2], versions[1], "upstream")
    return tuple(dict.fromkeys(found))


def _version(function: Function) -> _Version:
    return _Version(function, tuple(_spots(without_docstring(function.body))))


def _spots(suite: Sequence[ast.stmt]) -> Iterator[_Spot]:
    for node in suite:
        inner = [] if isinstance(node, Function | ast.ClassDef) else suites_of(node)
        heads = _heads(node) if inner else [node]
        reads = {
            n.id
            for head in heads
            for n in ast.walk(head)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.add(node.target.id)
        binds = frozenset(_bound(node, heads if inner else [node]))
        text = " ".join(map(plain_text, heads)) if inner else plain_text(node)
        own = set(_comprehended(heads))
        yield _Spot(node, f"{type(node).__name__} {text}", frozenset(reads - own), binds)
        for one in inner:
            yield from _spots(one)


def _heads(node: ast.stmt) -> list[ast.AST]:
    """What of a compound statement is not in its suites."""
    if isinstance(node, ast.Try):
        return [h.type for h in node.handlers if h.type is not None]
    suites = ("body", "orelse", "finalbody")
    fields = [value for name, value in ast.iter_fields(node) if name not in suites]
    parts = [part for value in fields for part in (value if isinstance(value, list) else [value])]
    return [part for part in parts if isinstance(part, ast.AST)]


def _comprehended(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names that comprehensions and lambdas have for themselves."""
    for node in (inner for one in nodes for inner in ast.walk(one)):
        if isinstance(node, ast.comprehension):
            yield from (n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        if isinstance(node, ast.Lambda):
            yield from (a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))


def _bound(node: ast.stmt, heads: Sequence[ast.AST]) -> Iterator[str]:
    if not suites_of(node) or isinstance(node, Function | ast.ClassDef):
        yield from bound_names([node])
        return
    for head in heads:
        for inner in ast.walk(head):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id
    if isinstance(node, ast.Try):
        yield from (h.name for h in node.handlers if h.name)


def _parameters(function: Function) -> set[str]:
    return {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}


# Names that nothing gives a value


def _unbound(merged: _Version, sides: Sequence[_Version], known: frozenset[str]) -> Iterator[Clash]:
    """Names that are read before anything binds them, or that no file has."""
    local = local_names(merged.function)
    foreign = [local_names(side.function) - local for side in sides]
    for place, spot in enumerate(merged.spots):
        for name in sorted(spot.reads):
            if name in local:
                early = merged.binder(name, place) is None
                if early and not any(_is_early(side, name) for side in sides):
                    yield Clash(f"{name} is read before it is assigned", ours=_shown(spot))
            elif any(name in names for names in foreign) and name not in known | _ALWAYS:
                yield Clash(f"{name} is assigned nowhere any more", ours=_shown(spot))


def _is_early(version: _Version, name: str) -> bool:
    """Whether a version itself reads `name` above what assigns it, as in a loop."""
    return name in local_names(version.function) and any(
        name in spot.reads and version.binder(name, place) is None
        for place, spot in enumerate(version.spots)
    )


# Names that mean something else


def _moved_meanings(merged: _Version, side: _Version, other: _Version, who: str) -> Iterator[Clash]:
    """Where a statement that `side` wrote would read what the other side made of a name."""
    elsewhere = {spot.text for spot in other.spots}
    for place, spot in enumerate(merged.spots):
        if spot.text in elsewhere:
            continue
        origins = _origins(spot, side)
        for name in sorted(spot.reads):
            before = [side.binder(name, n) for n in origins if name in side.spots[n].reads]
            now = merged.binder(name, place)
            if before and not any(_is_same(one, now) for one in before):
                yield Clash(
                    f"{name} means something else where {who} reads it",
                    base=_shown(before[0]),
                    ours=_shown(spot),
                    theirs=_shown(now),
                )


def _origins(spot: _Spot, side: _Version) -> list[int]:
    """Where `side` has the statement, or the one that is most like it."""
    same = [n for n, one in enumerate(side.spots) if one.text == spot.text]
    if same:
        return same
    alike = [(alikeness(one.node, spot.node), n) for n, one in enumerate(side.spots)]
    best = max(alike, default=(0.0, 0))
    return [best[1]] if best[0] >= _ENOUGH else []


def _is_same(before: _Spot | str | None, now: _Spot | str | None) -> bool:
    """Whether a name comes from the same: the same statement, or a call with more or fewer arguments."""
    if not isinstance(before, _Spot) or not isinstance(now, _Spot):
        return before == now
    if before.text == now.text:
        return True
    match before.node, now.node:
        case (
            (ast.Assign(targets=[a], value=one) | ast.AnnAssign(target=a, value=ast.expr() as one)),
            (
                ast.Assign(targets=[b], value=other)
                | ast.AnnAssign(target=b, value=ast.expr() as other)
            ),
        ):
            return plain_text(a) == plain_text(b) and is_same_value(one, other)
        case ast.For(target=a, iter=one), ast.For(target=b, iter=other):
            return plain_text(a) == plain_text(b) and is_same_value(one, other)
        case _:
            return False


def is_same_value(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are equal, or one call with the same values for the arguments of both."""
    if plain_text(one) == plain_text(other):
        return True
    match one, other:
        case ast.Attribute(value=a, attr=x), ast.Attribute(value=b, attr=y):
            return x == y and is_same_value(a, b)
        case ast.Call(), ast.Call():
            return _is_same_call(one, other)
        case _:
            return False


def _is_same_call(one: ast.Call, other: ast.Call) -> bool:
    if plain_text(one.func) != plain_text(other.func):
        return False
    shared = zip(one.args, other.args, strict=False)
    if any(plain_text(a) != plain_text(b) for a, b in shared):
        return False
    mine = {k.arg: plain_text(k.value) for k in one.keywords}
    theirs = {k.arg: plain_text(k.value) for k in other.keywords}
    return all(mine[name] == theirs[name] for name in mine.keys() & theirs.keys())


def _shown(spot: _Spot | str | None) -> str:
    if not isinstance(spot, _Spot):
        return spot or "nothing"
    text = ast.unparse(spot.node)
    return text.partition("\n")[0]
