"""Changes of upstream that the declaration makes too, takes out or moves: made in all versions.

base     logits = self.head(x[:, keep, :])         theirs   logits = self.head(cut(x, keep))
ours     if labels is None:                        said     if labels is None:
             logits = self.head(x[:, keep, :])                  logits = self.head(cut(x, keep))

After that, the two sides differ in what one of them changed alone.
"""

from __future__ import annotations

import ast
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.align.file import Cut, of_lines
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
    replacing,
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
    taken_out = [
        change
        for change, own in _of_both(three)
        if not any(one.new for one in own) and _is_out(change, own, three)
    ]
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
    mine = [*_changes(align_methods(base, ours))]
    for change in _changes(align_methods(base, theirs)):
        own = [one for one in mine if {*one.old} & {*change.old}]
        if {*change.old} <= {node for one in own for node in one.old}:
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
        given = assigned(node)
        for j, other in enumerate(new):
            there = assigned(other)
            if given is not None and there is not None and given[0] == there[0]:
                if i:
                    yield Change((*old[:i],), (*new[:j],))
                if key(node) != key(other):
                    yield Change((node,), (other,))
                yield from _parts(old[i + 1 :], new[j + 1 :])
                return
    if old:
        yield Change((*old,), (*new,))


def _is_shared(change: Change, own: Sequence[Change]) -> bool:
    """Whether the declaration makes the change, too, and one more beside it or none."""
    if not change.new or len(own) != 1 or own[0].old != change.old:
        return False
    if plain_texts(own[0].new) == plain_texts(change.new):
        return True
    if not len(change.old) == len(change.new) == len(own[0].new) == 1:
        return False
    # What the declaration changed besides is in both releases.
    before = _keys(change.old[0])
    pairs = differing(change.new[0], own[0].new[0])
    return any(before.count(key(theirs)) == 1 for theirs, _ in pairs)


def _is_out(change: Change, own: Sequence[Change], three: Three) -> bool:
    """Whether the declaration does no more what was there, and upstream does nothing else there."""
    base, ours = _done(three.base.nodes), _done(three.ours.nodes)
    gone = _done([node for one in own for node in one.old])
    is_moved = any(ours[name] != base[name] - count for name, count in gone.items())
    targets = [assigned(node) for node in change.new]
    return not is_moved and None not in targets and _done(change.new).keys() <= gone.keys()


def _done(nodes: Sequence[ast.stmt]) -> Counter[str]:
    """What statements give a value to, and what they call, by its last name."""
    inside = [inner for node in nodes for inner in ast.walk(node)]
    calls = [inner.func for inner in inside if isinstance(inner, ast.Call)]
    given = (assigned(inner) for inner in inside if isinstance(inner, ast.stmt))
    names = [f"{ast.unparse(call).rpartition('.')[2]}()" for call in calls]
    return Counter([*names, *(one[0] for one in given if one is not None)])


def _keys(node: ast.AST) -> list[str]:
    return [key(inner) for inner in ast.walk(node) if isinstance(inner, ast.expr)]


def _cut(change: Change) -> Cut:
    first, margin = change.old[0], " " * change.old[0].col_offset
    text = "\n".join(map(ast.unparse, change.new))
    lines = [margin + line for line in text.split("\n")] if text else []
    return of_lines(first_line(first), change.old[-1].end_lineno or 0, lines)


def _suite_of(code: Code, node: ast.stmt) -> list[ast.stmt]:
    assert code.function is not None
    return next(suite for suite in suites(code.function) if node in suite)


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
    suite = _suite_of(code, node)
    bindings: list[ast.Assign] = []
    whole: ast.stmt = node
    for binding in suite[: suite.index(node)][::-1]:
        match binding:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                plain_text(binding) not in there
            ):
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
        base, theirs = self.three.base, self.three.theirs
        before, after = _folded(base, self.old, theirs), _folded(theirs, self.new, base)
        found = [
            self._in_ours(old, new, before, after)
            for old, new in differing(before.node, after.node)
            if not isinstance(old, ast.Name | ast.Constant)
        ]
        if key(before.node) == key(after.node):
            found = [_without_unread(self.three.ours, before)]
        ours = next((code for code in found if code is not None), None)
        if ours is None or ours.function is None:
            return None
        if {*bound_names(before.bindings)} & names_in([ours.function]):
            return None
        return Three(
            _with_folded(base, self.old, before, after.node),
            ours,
            _with_folded(theirs, self.new, after, after.node),
        )

    def _in_ours(
        self, old: ast.expr, new: ast.expr, before: _Folded, after: _Folded
    ) -> Code | None:
        """The declaration with `new` where it has `old`; None for none, or another meaning."""
        assert self.three.functions is not None
        base, ours, theirs = (flow_of(function) for function in self.three.functions)
        if len([*_places(base, old, before)]) != 1:
            return None
        was = _origins(base, (self.old, *before.bindings)[-1], old)
        now = _origins(theirs, (self.new, *after.bindings)[-1], new)
        text = ast.unparse(new) if isinstance(new, _ATOMS) else f"({ast.unparse(new)})"
        places = [*_places(ours, old, before)]
        if len(places) != 1:
            return None
        ((spot, place),) = places
        given = [assigned(node) for node in (self.old, spot.node)]
        is_it = bool(before.bindings) or (given[0] and given[0][0]) == (given[1] and given[1][0])
        if not is_it or _is_wrapped(place, spot.node, old, before.node):
            return None
        if _origins(ours, spot.node, old) != was:
            return None
        if _origins(ours, spot.node, new) != now:
            return None
        return _without_unread(self.three.ours.changed([replacing(place, text)]), before)


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
                known = _known(flow, number, node, values) if values else {}
                if key(exchanged(node, known) if known else node) == key(wanted):
                    yield spot, node


def _known(
    flow: Flow, number: int, node: ast.expr, values: Mapping[str, ast.AST]
) -> dict[ast.AST, ast.AST]:
    """The names in an expression that one of the statements binds, with what it binds them to."""
    known: dict[ast.AST, ast.AST] = {}
    for name in ast.walk(node):
        if not isinstance(name, ast.Name):
            continue
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
