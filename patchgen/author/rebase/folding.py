"""Put values that only one version of a method names where they are read.

    base     part = slice(-keep, None)             ours    if labels is None:
             logits = self.head(hidden[part])                  logits = self.head(hidden[part])
    theirs   hidden = last(hidden, keep)
             logits = self.head(hidden)

Folded, upstream changes one expression: `hidden[slice(-keep, None)]` becomes `last(hidden, keep)`.
The declaration has that expression elsewhere, and can follow.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.author.align.expressions import differing
from patchgen.author.align.suites import suites_of
from patchgen.author.rebase.flow import Flow, Spot, flow_of
from patchgen.author.rebase.order import bound_in, named_in
from patchgen.author.rebase.pairing import pair_statements, targets_of
from patchgen.author.rebase.sides import as_operand
from patchgen.author.rebase.versions import Cut, MethodText, Versions, replacing
from patchgen.syntax.bound import names_in
from patchgen.syntax.same import Function, plain_text, without_docstring

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PLAIN = (ast.Name, ast.Constant)


@dataclass(frozen=True)
class _Region:
    """Statements `start` to `stop` of the old parent, which `first` to `last` replace."""

    start: int
    stop: int
    first: int
    last: int


def folded(versions: Versions) -> Versions | None:
    """The versions with what upstream changed of the declaration's own places folded.

    None where nothing can be folded.
    """
    done = versions
    for region in reversed(list(_regions(versions))):
        known = [names_in([one.function]) for one in (done.base, done.theirs)]
        base, names = _folded_run(done.base, region.start, region.stop, known[1])
        theirs, _ = _folded_run(done.theirs, region.first, region.last, known[0])
        ours = _without_names(done.ours, names)
        if ours is not None:
            done = _followed(Versions(base, ours, theirs), region.start, region.first)
    return None if done == versions else done


def _regions(versions: Versions) -> Iterator[_Region]:
    """What upstream changed in the method's own statements, where the declaration has not all."""
    base, ours, theirs = (
        [*map(plain_text, _body(one.function))]
        for one in (versions.base, versions.ours, versions.theirs)
    )
    matcher = difflib.SequenceMatcher(None, base, theirs, autojunk=False)
    for tag, i, k, j, m in matcher.get_opcodes():
        if tag == "replace" and any(text not in ours for text in base[i:k]):
            yield _Region(i, k, j, m)


def _body(function: Function) -> list[ast.stmt]:
    return without_docstring(function.body)


# Folding


def _folded_run(
    version: MethodText, start: int, stop: int, known: frozenset[str]
) -> tuple[MethodText, list[str]]:
    """A version whose statements `start` to `stop` name nothing that is read once.

    What the other version does not know may be read anywhere, else among these statements.  The
    second result are the statements that are gone, as plain text.
    """
    gone: list[str] = []
    place = start
    while place < stop:
        body = _body(version.function)
        node = body[place]
        readers = readers_of(version.function, node)
        later = {id(inner) for one in body[place + 1 : stop] for inner in ast.walk(one)}
        if readers is None or len(readers) != 1:
            place += 1
            continue
        if id(readers[0]) not in later and readers[0].id in known:
            place += 1
            continue
        gone.append(plain_text(node))
        version = fold(version, node, readers)
        place, stop = start, stop - 1
    return version, gone


def _without_names(version: MethodText, names: Sequence[str]) -> MethodText | None:
    """A version without the statements that were folded in the old parent; None if it needs one."""
    for text in names:
        node = next((n for n in _body(version.function) if plain_text(n) == text), None)
        if node is None:
            continue
        readers = readers_of(version.function, node)
        if readers is None:
            return None
        version = fold(version, node, readers)
    return version


def fold(version: MethodText, node: ast.stmt, readers: Sequence[ast.Name]) -> MethodText:
    """A version without a statement that names a value; the value stands where it was read."""
    assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    text = as_operand(node.value, version.side.code(node.value))
    return version.changed([version.without(node), *(replacing(one, text) for one in readers)])


def readers_of(function: Function, node: ast.stmt) -> list[ast.Name] | None:
    """Where the value that a statement names is read; None where it cannot stand there itself."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
        ):
            pass
        case _:
            return None
    flow = flow_of(function)
    place = next(n for n, spot in enumerate(flow.spots) if spot.node is node)
    found: list[ast.Name] = []
    changed: set[str] = set()
    in_loops = {id(n) for one in ast.walk(function) for n in _inside_loop(one)}
    for spot in flow.spots[place + 1 :]:
        reads = list(_reads(spot, name))
        if reads:
            if changed & named_in([node]) or id(spot.node) in in_loops:
                return None
            found += reads
        if name in spot.binds:
            # Under a condition, the value may live on beside the other one.
            return found if spot.node in function.body else None
        changed |= spot.binds | (set() if suites_of(spot.node) else bound_in([spot.node]))
    return found


def _inside_loop(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _LOOPS):
        for one in node.body:
            yield from ast.walk(one)


def _reads(spot: Spot, name: str) -> Iterator[ast.Name]:
    for head in spot.heads:
        for inner in ast.walk(head):
            if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Load):
                yield inner


# Following


def _followed(versions: Versions, start: int, first: int) -> Versions:
    """The versions with upstream's new expressions also where the declaration moved old ones."""
    base, ours, theirs = (
        _body(one.function) for one in (versions.base, versions.ours, versions.theirs)
    )
    pairs = pair_statements(base, ours).pairs
    for place, (old, new) in enumerate(zip(base[start:], theirs[first:], strict=False), start):
        if plain_text(old) == plain_text(new):
            break
        if place in pairs and targets_of(ours[pairs[place]]) == targets_of(old):
            continue  # the declaration's version of the statement stands in its place
        pair = next((p for p in differing(old, new) if not isinstance(p[0], _PLAIN)), None)
        if pair is not None and not _is_inside(*pair):
            return _follow(versions, *pair) or versions
    return versions


def _is_inside(old: ast.expr, new: ast.expr) -> bool:
    """Whether upstream does more with the old value, which the declaration may do elsewhere."""
    return any(plain_text(n) == plain_text(old) for n in ast.walk(new) if isinstance(n, ast.expr))


def _follow(versions: Versions, old: ast.expr, new: ast.expr) -> Versions | None:
    """Both the old parent and the declaration with `new` for `old`."""
    flows = [flow_of(one.function) for one in (versions.base, versions.ours)]
    places = [_places(flow, old) for flow in flows]
    if len(places[0]) != 1 or not places[1]:
        return None
    origin = places[0][0][0]
    names = {n.id for one in (old, new) for n in ast.walk(one) if isinstance(n, ast.Name)}
    for place, _ in places[1]:
        if any(not _is_same(flows, name, origin, place) for name in names):
            return None
    text = versions.theirs.side.code(new)
    cuts: list[list[Cut]] = [[replacing(node, text) for _, node in found] for found in places]
    return replace(
        versions, base=versions.base.changed(cuts[0]), ours=versions.ours.changed(cuts[1])
    )


def _places(flow: Flow, wanted: ast.expr) -> list[tuple[int, ast.expr]]:
    """Where an expression stands in a method: the number of the spot, and the expression."""
    text = plain_text(wanted)
    return [
        (number, node)
        for number, spot in enumerate(flow.spots)
        for head in spot.heads
        for node in ast.walk(head)
        if isinstance(node, ast.expr) and plain_text(node) == text
    ]


def _is_same(flows: Sequence[Flow], name: str, origin: int, place: int) -> bool:
    """Whether a name comes from the same statement in the old parent and in the declaration."""
    before, now = flows[0].binder(name, origin), flows[1].binder(name, place)
    if isinstance(before, Spot) and isinstance(now, Spot):
        return before.text == now.text
    return before == now
