"""The statements of two versions of a method, suite by suite.

Equal statements are found first; in what lies between them, compound statements that are alike are
opened, so that a change deep inside a loop is a change there and not of the loop.
"""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeVar

from patchgen.syntax.same import without_docstring
from patchgen.syntax.trees import Function, names_within

# Compound statements as suites that hold others; what else they say is their head.
_SUITES = ("body", "orelse", "finalbody")
_OPENED = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
_ALIKE = 0.45
# What `ast` counts as an expression and cannot stand alone as one, and strings, whose pieces have
# no text.
_NO_PLACE = (ast.Slice, ast.Starred, ast.JoinedStr, ast.FormattedValue)
_Node = TypeVar("_Node", bound=ast.AST)
Places = tuple[tuple[int, int], ...]
Statements = tuple[ast.stmt, ...]
Pair = tuple[ast.expr, ast.expr]  # an expression, and what the other version has there


@dataclass(frozen=True, eq=False)
class Row:
    """Statements of the parent beside what the other file has in their place.

    "same": one statement each, equal.
    "opened": one compound statement each; `inside` says what differs, `heads` are the expressions
    of their heads that differ.
    "changed": everything else; either side may be empty.
    """

    state: Literal["same", "opened", "changed"]
    old: Statements
    new: Statements
    inside: tuple[Rows, ...] = ()
    heads: tuple[Pair, ...] = ()


Rows = tuple[Row, ...]  # two suites side by side


def key(node: ast.AST) -> str:
    """Equal for code that a pattern matches alike, whether a name is read or bound."""
    text: str | None = getattr(node, "_align_key", None)
    if text is None:
        text = ast.dump(node)
        for context in (", ctx=Load()", ", ctx=Store()", ", ctx=Del()"):
            text = text.replace(context, "")
        node._align_key = text  # type: ignore[attr-defined]  # dumping is slow
    return text


def align_methods(old: Function, new: Function) -> Rows:
    """The bodies of two functions, docstrings left out."""
    return align(without_docstring(old.body), without_docstring(new.body))


def align(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Rows:
    """Two suites: equal statements first, then alike ones between them."""
    rows: list[Row] = []
    i = j = 0
    pairs = _pair(old, new)
    for a, b in [*pairs.items(), (len(old), len(new))]:
        removed = tuple(old[i:a])
        added = tuple(new[j:b])
        if removed or added:
            rows.append(Row("changed", removed, added))
        if a in pairs:
            rows.append(_beside(old[a], new[b]))
        i = a + 1
        j = b + 1
    return tuple(rows)


def _beside(old: ast.stmt, new: ast.stmt) -> Row:
    """A pair of statements."""
    if key(old) == key(new):
        return Row("same", (old,), (new,))
    return _opened(old, new) or Row("changed", (old,), (new,))


def _pair(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> dict[int, int]:
    """The places of statements of `old` that stand in `new` too, and where."""
    before = [key(node) for node in old]
    after = [key(node) for node in new]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    pairs: dict[int, int] = {}
    for tag, i, old_end, j, new_end in matcher.get_opcodes():
        if tag == "equal":
            olds = range(i, old_end)
            news = range(j, new_end)
            pairs.update(zip(olds, news, strict=True))
        else:
            for a, b in _best_pairs(old[i:old_end], new[j:new_end]):
                pairs[i + a] = j + b
    return pairs


def _best_pairs(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Places:
    """The places of compound statements that are alike, in order: those that sum to most."""
    # best[i][j] is the sum and the pairs of the first i old and the first j new statements.
    nothing: tuple[float, Places] = (0.0, ())
    best = [[nothing] * (len(new) + 1)]
    for i, before in enumerate(old):
        above = best[-1]
        line = [nothing]
        for j, after in enumerate(new):
            choice = max(above[j + 1], line[j], key=itemgetter(0))
            alike = 0.0
            if isinstance(before, _OPENED) and type(before) is type(after):
                alike = measure_similarity(before, after)
            if alike >= _ALIKE:
                score, pairs = above[j]
                paired = score + alike, (*pairs, (i, j))
                choice = max(choice, paired, key=itemgetter(0))
            line.append(choice)
        best.append(line)
    _, pairs = best[-1][-1]
    return pairs


def measure_similarity(old: ast.stmt, new: ast.stmt) -> float:
    """How much of two statements, their heads and what is inside, is the same, from 0 to 1."""
    head = 0.5 if head_texts(old) == head_texts(new) else 0.0
    mine = Counter(_simple(old))
    theirs = Counter(_simple(new))
    most = max(mine.total(), theirs.total(), 1)
    return head + (1 - head) * (mine & theirs).total() / most


def _simple(node: ast.stmt) -> Iterator[str]:
    inside = (inner for inner in ast.walk(node) if isinstance(inner, ast.stmt))
    return (key(n) for n in inside if not isinstance(n, (*_OPENED, ast.FunctionDef, ast.ClassDef)))


def head_texts(node: ast.stmt) -> tuple[str, ...]:
    """What a compound statement says outside its suites."""
    if isinstance(node, ast.Try):
        return tuple(f"{h.type and key(h.type)} {h.name}" for h in node.handlers)
    return tuple(map(key, heads_of(node)))


def heads_of(node: ast.stmt) -> list[ast.AST]:
    """The nodes of a compound statement that are not in its suites."""
    if isinstance(node, ast.Try):
        return [h.type for h in node.handlers if h.type is not None]
    heads = []
    for name, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        if name not in _SUITES:
            heads += [part for part in parts if isinstance(part, ast.AST)]
    return heads


def suites_of(node: ast.stmt) -> list[list[ast.stmt]]:
    """The suites directly inside a statement, in order; those that are not there are empty."""
    if not isinstance(node, (*_OPENED, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return []
    handlers = [h.body for h in node.handlers] if isinstance(node, ast.Try) else []
    first, *rest = (getattr(node, name) for name in _SUITES if hasattr(node, name))
    return [first, *handlers, *rest]


def _opened(old: ast.stmt, new: ast.stmt) -> Row | None:
    """The row of two compound statements whose suites can be compared one by one."""
    heads: list[Pair] = []
    if head_texts(old) != head_texts(new):
        pair = _differing_test(old, new)
        if pair is None:
            return None
        heads.append(pair)
    mine = suites_of(old)
    theirs = suites_of(new)
    # A suite that only one of them has is no place in which something could be found.
    if [*map(bool, mine)] != [*map(bool, theirs)]:
        return None
    inside = tuple(align(a, b) for a, b in zip(mine, theirs, strict=True))
    return Row("opened", (old,), (new,), inside, tuple(heads))


def _differing_test(old: ast.stmt, new: ast.stmt) -> Pair | None:
    match old, new:
        case (ast.If(test=a), ast.If(test=b)) | (ast.While(test=a), ast.While(test=b)):
            return a, b
        case ast.For(target=t, iter=a), ast.For(target=u, iter=b) if key(t) == key(u):
            return a, b
        case _:
            return None


# Where two expressions differ


def differing(old: ast.AST, new: ast.AST) -> list[Pair]:
    """The expressions around the one place where two nodes differ, the innermost first.

    Empty where they differ in more than one place that no expression holds together.  What reads a
    variable of a comprehension or lambda around it means nothing alone.
    """
    pairs: list[Pair] = []
    inner_names: set[str] = set()
    while True:
        if isinstance(old, ast.expr) and isinstance(new, ast.expr):
            names = {name.id for side in (old, new) for name in names_within(side)}
            has_place = not isinstance(old, _NO_PLACE) and not isinstance(new, _NO_PLACE)
            if has_place and names.isdisjoint(inner_names):
                pairs.append((old, new))
        children = _children(old, new)
        if children is None:
            break
        differ = [(a, b) for a, b in children if key(a) != key(b)]
        if len(differ) != 1 or isinstance(old, ast.JoinedStr):
            break
        ((before, after),) = differ
        # The tuple of `x[a, b]` is no expression that could be written alone.
        if isinstance(old, ast.Subscript) and before is old.slice and isinstance(before, ast.Tuple):
            break
        for side in (old, new):
            inner_names |= {*own_names([side, *ast.iter_child_nodes(side)])}
        old = before
        new = after
    return pairs[::-1]


def own_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that comprehensions and lambdas have for themselves."""
    for node in nodes:
        if isinstance(node, ast.comprehension):
            yield from (n.id for n in names_within(node.target))
        if isinstance(node, ast.Lambda):
            yield from (a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))


def _children(old: ast.AST, new: ast.AST) -> list[tuple[ast.AST, ast.AST]] | None:
    """The child nodes pair by pair; None where something else differs."""
    if type(old) is not type(new):
        return None
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for name, mine in ast.iter_fields(old):
        theirs = getattr(new, name)
        mine = mine if isinstance(mine, list) else [mine]
        theirs = theirs if isinstance(theirs, list) else [theirs]
        if len(mine) != len(theirs):
            return None
        for a, b in zip(mine, theirs, strict=True):
            is_node = isinstance(a, ast.AST) and isinstance(b, ast.AST)
            if not is_node and a != b:
                return None
            if is_node and not isinstance(a, ast.expr_context):
                pairs.append((a, b))
    return pairs


def exchanged(node: _Node, new: Mapping[ast.AST, ast.AST]) -> _Node:
    """A node with others in the places of some that are in it."""

    def part(value: object) -> object:
        if isinstance(value, list):
            return [*map(part, value)]
        if isinstance(value, ast.AST):
            return new.get(value) or exchanged(value, new)
        return value

    fields = {name: part(value) for name, value in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**fields), node)
