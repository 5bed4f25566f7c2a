"""Changes of upstream that the declaration makes too, takes out or moves: made in all versions.

base     logits = self.head(x[:, keep, :])         theirs   logits = self.head(cut(x, keep))
ours     if labels is None:                        said     if labels is None:
             logits = self.head(x[:, keep, :])                  logits = self.head(cut(x, keep))

After that, the two sides differ in what one of them changed alone.
"""

from __future__ import annotations

import ast
import contextlib
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.align.file import Cut, of_lines, replacing
from patchgen.author.align.suites import Rows, align_methods, differing, exchanged, key
from patchgen.author.anatomy.code import names, walk
from patchgen.author.rebase.code import (
    Code,
    Flow,
    Spot,
    Three,
    around,
    assigned,
    beside,
    binder,
    flow_of,
)
from patchgen.compiler.edits.pattern import expressions, suites
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.same import plain_text, plain_texts
from patchgen.syntax.trees import Function, names_within

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


@dataclass(frozen=True)
class Change:
    """Statements of the old parent, and what one side has in their place."""

    old: tuple[ast.stmt, ...]
    new: tuple[ast.stmt, ...]


def settled(three: Three) -> Three:
    """The versions with those changes of upstream that the declaration does not contradict."""
    while (moved := _moved(three)) is not None:
        three = moved
    taken_out = []
    for change, own in _of_both(three):
        adds = any(one.new for one in own)
        if not adds and _is_out(change, own, three):
            taken_out.append(change)
    return with_shared(_made(three, taken_out))


def with_shared(three: Three) -> Three:
    """The versions with those changes of upstream that the declaration makes, too."""
    return _made(three, [change for change, own in _of_both(three) if _is_shared(change, own)])


def _made(three: Three, changes: Sequence[Change]) -> Three:
    """The versions with some changes made in the old parent."""
    with contextlib.suppress(SyntaxError):  # nothing may be left of a suite
        return replace(three, base=three.base.changed(map(_cut, changes)))
    return three


def _moved(three: Three) -> Three | None:
    """The versions with one value followed; None where there is none."""
    for change, _ in _of_both(three):
        if len(change.old) == 1 == len(change.new):
            moved = _Value(three, change.old[0], change.new[0]).followed()
            if moved is not None:
                return moved
    return None


def _of_both(three: Three) -> Iterator[tuple[Change, list[Change]]]:
    """Upstream's changes of statements that the declaration changes, too, beside its own."""
    if three.functions is None:
        return
    base, ours, theirs = three.functions
    declared = [*_changes(align_methods(base, ours))]
    for change in _changes(align_methods(base, theirs)):
        own = [one for one in declared if not {*one.old}.isdisjoint(change.old)]
        covered: set[ast.stmt] = set()
        for one in own:
            covered.update(one.old)
        if covered.issuperset(change.old):
            yield change, own


def _changes(rows: Rows) -> Iterator[Change]:
    """What differs, in as small parts as what statements give a value to tells."""
    for row in rows:
        if row.state == "opened":
            for suite in row.inside:
                yield from _changes(suite)
        elif row.state == "changed":
            yield from _parts(row.old, row.new)


def _parts(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Iterator[Change]:
    """A change in parts: the first pair of statements for the same thing, and what is around it."""
    for i, node in enumerate(old):
        target = _target(node)
        for j, other in enumerate(new):
            if not target or _target(other) != target:
                continue
            if i:
                yield Change((*old[:i],), (*new[:j],))
            if key(node) != key(other):
                yield Change((node,), (other,))
            yield from _parts(old[i + 1 :], new[j + 1 :])
            return
    if old:
        yield Change((*old,), (*new,))


def _target(node: ast.AST) -> str:
    """What a statement gives a value to; "" for nothing."""
    given = assigned(node) if isinstance(node, ast.stmt) else None
    return given[0] if given is not None else ""


def _is_shared(change: Change, own: Sequence[Change]) -> bool:
    """Whether the declaration makes the change, too, and one more beside it or none."""
    if not change.new or len(own) != 1 or own[0].old != change.old:
        return False
    [mine] = own
    if plain_texts(mine.new) == plain_texts(change.new):
        return True
    match change.old, change.new, mine.new:
        case [old], [upstream], [declared]:
            # What the declaration changed besides is in both releases.
            before = [key(node) for node in ast.walk(old) if isinstance(node, ast.expr)]
            pairs = differing(upstream, declared)
            return any(before.count(key(theirs)) == 1 for theirs, _ in pairs)
    return False


def _is_out(change: Change, own: Sequence[Change], three: Three) -> bool:
    """Whether the declaration does no more what was there, and upstream does nothing else there."""
    base = _done(three.base.nodes)
    ours = _done(three.ours.nodes)
    gone = Counter[str]()
    for one in own:
        gone.update(_done(one.old))
    is_moved = any(ours[name] != base[name] - count for name, count in gone.items())
    is_plain = all(map(_target, change.new))
    if is_moved or not is_plain:
        return False
    return _done(change.new).keys() <= gone.keys()


def _done(nodes: Sequence[ast.stmt]) -> Counter[str]:
    """What statements give a value to, and what they call, by its last name."""
    done: Counter[str] = Counter()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                done[f"{ast.unparse(inner.func).rpartition('.')[2]}()"] += 1
            elif target := _target(inner):
                done[target] += 1
    return done


def _cut(change: Change) -> Cut:
    first = change.old[0]
    text = "\n".join(map(ast.unparse, change.new))
    lines = textwrap.indent(text, " " * first.col_offset).split("\n") if text else []
    return of_lines(first_line(first), change.old[-1].end_lineno or 0, lines)


# A value that upstream changed, wherever the declaration has it


@dataclass(frozen=True)
class _Folded:
    """A statement with the values of variables that it alone reads, and what bound these."""

    node: ast.stmt
    bindings: tuple[ast.Assign, ...]


def _folded(code: Code, node: ast.stmt, other: Code) -> _Folded:
    """A statement with what right above it only it reads, and the other release does not have."""
    assert code.function is not None and other.function is not None
    there = {plain_text(n) for n in ast.walk(other.function) if isinstance(n, ast.stmt)}
    suite = next(suite for suite in suites(code.function) if node in suite)
    bindings: list[ast.Assign] = []
    whole: ast.stmt = node
    for binding in reversed(suite[: suite.index(node)]):
        if plain_text(binding) in there:
            break
        match binding:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                reads = [n for n in names_within(whole) if n.id == name]
                if not _is_read_here(code.function, name, binding, node) or len(reads) != 1:
                    break
                whole = exchanged(whole, {reads[0]: value})
                bindings.append(binding)
            case _:
                break
    return _Folded(whole, tuple(bindings))


def _is_read_here(function: Function, name: str, binding: ast.stmt, node: ast.stmt) -> bool:
    """Whether only the statements from `binding` to `node` read what the first one binds."""
    names = [n for n in names_within(function) if n.id == name]
    loops = (loop for loop in ast.walk(function) if isinstance(loop, _LOOPS))
    is_repeated = any(node in [*ast.walk(loop)] for loop in loops)
    before = [n for n in names if n.lineno < binding.lineno]
    after = [n for n in names if n.lineno > (node.end_lineno or 0)]
    return not after and not (before and is_repeated)


@dataclass(frozen=True)
class _Value:
    """What `old` and `new` give to the same thing in the two releases."""

    three: Three
    old: ast.stmt
    new: ast.stmt

    def followed(self) -> Three | None:
        """The versions with upstream's value in the one place that has the old one."""
        base = self.three.base
        theirs = self.three.theirs
        before = _folded(base, self.old, theirs)
        after = _folded(theirs, self.new, base)
        ours = self._ours(before, after)
        if ours is None or ours.function is None:
            return None
        if {*bound_names(before.bindings)} & names_in([ours.function]):
            return None
        return Three(
            _with_folded(base, self.old, before, after.node),
            ours,
            _with_folded(theirs, self.new, after, after.node),
        )

    def _ours(self, before: _Folded, after: _Folded) -> Code | None:
        """The declaration with upstream's value, the innermost that it has in one place."""
        if key(before.node) == key(after.node):
            return _without_unread(self.three.ours, before)
        for old, new in differing(before.node, after.node):
            if not isinstance(old, ast.Name | ast.Constant):
                code = self._in_ours(old, new, before, after)
                if code is not None:
                    return code
        return None

    def _in_ours(
        self, old: ast.expr, new: ast.expr, before: _Folded, after: _Folded
    ) -> Code | None:
        """The declaration with `new` where it has `old`; None for none, or another meaning."""
        assert self.three.functions is not None
        base, ours, theirs = map(flow_of, self.three.functions)
        there = [*_places(base, old, before)]
        places = [*_places(ours, old, before)]
        if len(there) != 1 or len(places) != 1:
            return None
        [(spot, place)] = places
        is_it = bool(before.bindings) or _target(self.old) == _target(spot.node)
        if not is_it or _is_wrapped(place, spot.node, old, before.node):
            return None
        # Where the first statement of each stands, which binds what the value is made of.
        start = before.bindings[-1] if before.bindings else self.old
        new_start = after.bindings[-1] if after.bindings else self.new
        if _origins(ours, spot.node, old) != _origins(base, start, old):
            return None
        if _origins(ours, spot.node, new) != _origins(theirs, new_start, new):
            return None
        text = ast.unparse(new)
        if not isinstance(new, _ATOMS):
            text = f"({text})"
        changed = self.three.ours.changed([replacing(place, text)])
        return _without_unread(changed, before)


def _is_wrapped(place: ast.expr, statement: ast.stmt, old: ast.expr, before: ast.stmt) -> bool:
    """Whether the declaration has something else around a value: upstream's may belong outside."""
    outer = [statement, *around(statement, place)][-2]
    if isinstance(outer, ast.stmt):
        return False
    return beside(outer, place) != beside([before, *around(before, old)][-2], old)


def _places(flow: Flow, wanted: ast.expr, folded: _Folded) -> Iterator[tuple[Spot, ast.expr]]:
    """Where a method has an expression, also by variables that the same statements bind."""
    values = {plain_text(binding): binding.value for binding in folded.bindings}
    for number, spot in enumerate(flow):
        for head in spot.heads:
            for node in expressions(head):
                if type(node) is not type(wanted):
                    continue
                known = _known(flow, number, node, values)
                if key(exchanged(node, known) if known else node) == key(wanted):
                    yield spot, node


def _known(
    flow: Flow, number: int, node: ast.expr, values: Mapping[str, ast.AST]
) -> dict[ast.AST, ast.AST]:
    """The names in an expression that one of the statements binds, with what it binds them to."""
    known: dict[ast.AST, ast.AST] = {}
    if not values:
        return known
    for name in names_within(node):
        origin = binder(flow, name.id, number)
        text = plain_text(origin.node) if origin is not None else ""
        if text in values:
            known[name] = values[text]
    return known


def _origins(flow: Flow, node: ast.stmt, expression: ast.expr) -> dict[str, str]:
    """What gives each name of an expression its value, if the expression stands at `node`."""
    number = next(number for number, spot in enumerate(flow) if spot.node is node)
    names = {inner.id for inner in names_within(expression)}
    origins = {name: binder(flow, name, number) for name in names}
    return {name: origin.text for name, origin in origins.items() if origin is not None}


def _with_folded(code: Code, node: ast.stmt, folded: _Folded, new: ast.stmt) -> Code:
    """The code with a statement in the place of one and of the bindings that it alone reads."""
    return code.changed([*_taken_out(folded.bindings), replacing(node, ast.unparse(new))])


def _taken_out(nodes: Sequence[ast.stmt]) -> list[Cut]:
    return [of_lines(node.lineno, node.end_lineno or 0, ()) for node in nodes]


def _without_unread(code: Code, folded: _Folded) -> Code:
    """The code without those of some bindings whose variable nothing reads."""
    assert code.function is not None
    read = names(code.function)
    unread = {plain_text(n) for n in folded.bindings if not {*bound_names([n])} & read}
    nodes = [n for n in walk(code.function, ast.Assign) if plain_text(n) in unread]
    return code.changed(_taken_out(nodes))
