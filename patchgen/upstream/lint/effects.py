"""Decide whether two lists of statements do the same in another order.

    a = f(x)           b = g(x)
    b = g(x)           a = f(x)            the same, unless `g` reads what `f` changes

In: the statements that Python would run and those that are shipped.  Out: a `Verdict`.  The names
and attributes in a statement say what it reads and writes.  Making an object counts as changing
nothing: the random numbers that are drawn next, and the order of a module's children, are not
compared.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from patchgen.syntax.bound import bound_names
from patchgen.upstream.lint.normalize import dumped

Path = tuple[str, ...]
_LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue | ast.Yield | ast.YieldFrom | ast.Await
# Methods of lists, dictionaries and sets that change them, also where their value is used.
_CHANGING = frozenset(
    "append extend insert remove clear pop popitem update setdefault add discard sort".split()
)

_PLAIN_CALLS = frozenset(
    "getattr hasattr isinstance len int float str bool max min sum any all range get".split()
)
# No places: that a statement may leave the method, and that a module's `__init__` has run.
_MARKS: frozenset[Path] = frozenset({("*",), ("self", "__init__")})


class DiffKind(Enum):
    """How two bodies differ."""

    SAME = "do the same"
    ORDER = "the same statements in an order that matters"
    REPEATED = "statements that are there once more"
    POST_INIT = "post_init at another place"
    REPLACED = "an assignment in the place of an earlier one whose value is read"
    OTHER = "other statements"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How bodies differ, and the first statements that show it: Python's, and the shipped one."""

    kind: DiffKind
    ours: ast.stmt | None = None
    theirs: ast.stmt | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement reads and writes, as paths: `("self", "act")`."""

    reads: frozenset[Path]
    writes: frozenset[Path]

    def conflicts(self, other: Effect) -> bool:
        """Whether the two cannot change places."""
        return (
            _overlap(self.writes, other.reads)
            or _overlap(self.writes, other.writes)
            or _overlap(self.reads, other.writes)
        )


def compare_bodies(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Verdict:
    """How the shipped statements `theirs` differ from `ours`, which Python would run."""
    # A local import of what the file imports above is removed by the linter; names that are missing
    # are `dangling`.
    ours, theirs = (
        [s for s in body if not isinstance(s, ast.Import | ast.ImportFrom)]
        for body in (ours, theirs)
    )
    if _dumps(ours) == _dumps(theirs):
        return Verdict(DiffKind.SAME)
    left, right = (_without_post_init(body) for body in (ours, theirs))
    verdict = _compare_reduced(reduced(left), reduced(right))
    if (
        verdict.kind is not DiffKind.SAME
        or len(left) == len(ours)
        or _post_init_is_last(ours, theirs)
    ):
        return verdict
    return Verdict(DiffKind.POST_INIT, next((s for s in ours if is_post_init(s)), None))


def _compare_reduced(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Verdict:
    left, right = Counter(_dumps(ours)), Counter(_dumps(theirs))
    if left == right:
        pair = _conflict(ours, theirs)
        return Verdict(DiffKind.ORDER, *pair) if pair else Verdict(DiffKind.SAME)
    missing = [s for s in ours if left[dumped(s)] > right[dumped(s)]]
    added = [s for s in theirs if right[dumped(s)] > left[dumped(s)]]
    if not added and all(right[dumped(s)] for s in missing):
        return Verdict(DiffKind.REPEATED, missing[0])
    if missing and not added and (later := _assigned_again(missing[0], ours)) is not None:
        return Verdict(DiffKind.REPLACED, missing[0], later)
    return Verdict(DiffKind.OTHER, missing[0] if missing else None, added[0] if added else None)


def _assigned_again(statement: ast.stmt, body: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement below `statement` that assigns to the same target."""
    target = _target(statement)
    place = next(n for n, s in enumerate(body) if s is statement)
    return (
        None
        if target is None
        else next((s for s in body[place + 1 :] if _target(s) == target), None)
    )


def _dumps(body: Sequence[ast.stmt]) -> list[str]:
    return [dumped(s) for s in body]


def is_post_init(node: ast.stmt) -> bool:
    """Whether `node` is `self.post_init()`."""
    match node:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name("self"), attr="post_init"), args=[])
        ):
            return True
    return False


def _without_post_init(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [s for s in body if not is_post_init(s)]


def _post_init_is_last(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> bool:
    """Whether neither makes an object after its last `post_init`, which initialises all."""
    for body in (ours, theirs):
        place = max((n for n, s in enumerate(body) if is_post_init(s)), default=None)
        if place is None:
            return False
        if any(_makes_objects(s) for s in body[place + 1 :]):
            return False
    return True


def _makes_objects(node: ast.stmt) -> bool:
    """Whether an object may be made in `node`, a number, text or list not being one."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(ast.unparse(call.func).rpartition(".")[2] not in _PLAIN_CALLS for call in calls)


def reduced(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`body` without assignments whose value nobody sees, since the same target is assigned or
    deleted below.
    """
    kept = _without_repetitions(body)
    while len(shorter := _without_dead(kept)) < len(kept):
        kept = shorter
    return kept


def _without_dead(body: list[ast.stmt]) -> list[ast.stmt]:
    kept = body
    for statement in body:
        target = _target(statement)
        if target is None or statement not in kept or isinstance(statement, ast.Delete):
            continue
        if effect(statement).writes != {target}:
            continue
        place = kept.index(statement)
        end = _overwritten(kept, place, target)
        if end is None:
            continue
        dead = {place, end} if isinstance(kept[end], ast.Delete) else {place}
        kept = [s for n, s in enumerate(kept) if n not in dead]
    return kept


def _without_repetitions(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`body` without assignments and checks that stand there already, where nothing they read or
    set has changed.
    """
    kept: list[ast.stmt] = []
    for statement in body:
        earlier = [n for n, s in enumerate(kept) if dumped(s) == dumped(statement)]
        own = effect(statement)
        touched = (own.reads | own.writes) - _MARKS
        idle = not _is_call(statement) and not _overlap(own.reads - _MARKS, own.writes - _MARKS)
        if (
            earlier
            and idle
            and not any(_overlap(effect(s).writes, touched) for s in kept[earlier[-1] + 1 :])
        ):
            continue
        kept.append(statement)
    return kept


def _is_call(statement: ast.stmt) -> bool:
    """Whether something is called, or left, in `statement` for its effect."""
    leaves = any(isinstance(node, ast.Return) for node in ast.walk(statement))
    return leaves or any(
        isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in ast.walk(statement)
    )


def _overwritten(body: Sequence[ast.stmt], place: int, target: Path) -> int | None:
    """Where `target`, assigned at `place`, gets another value before anyone reads it."""
    for later in range(place + 1, len(body)):
        found = effect(body[later])
        if _overlap(found.reads, frozenset({target})):
            return None
        if _target(body[later]) == target:
            return later
        if _overlap(found.writes, frozenset({target})):
            return None
    return None


def _target(node: ast.stmt) -> Path | None:
    match node:
        case ast.Assign(targets=[target]) | ast.Delete(targets=[target]):
            return _path(target)
    return None


def _conflict(
    ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]
) -> tuple[ast.stmt, ast.stmt] | None:
    """Two statements that cannot change places and did, in Python's order."""
    places = _places(theirs)
    taken: Counter[str] = Counter()
    shipped = []
    for statement in ours:
        key = dumped(statement)
        shipped.append(places[key][taken[key]])
        taken[key] += 1
    effects = [effect(s) for s in ours]
    for first in range(len(ours)):
        for second in range(first + 1, len(ours)):
            if shipped[first] > shipped[second] and effects[first].conflicts(effects[second]):
                return ours[first], ours[second]
    return None


def _places(body: Sequence[ast.stmt]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, statement in enumerate(body):
        places.setdefault(dumped(statement), []).append(place)
    return places


def effect(statement: ast.stmt) -> Effect:
    """What `statement` reads and writes.

    One that may leave the function writes `*`, which all others read.
    """
    reads: set[Path] = {("*",)}
    writes: set[Path] = set()
    for node in _nodes(statement):
        match node:
            case ast.Name() | ast.Attribute():
                path = _path(node)
                if path is not None:
                    (reads if isinstance(node.ctx, ast.Load) else writes).add(path)
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=inner):
                writes.add(_path(inner) or ("self",))
            case ast.Expr(ast.Call() as call):
                writes.update(_changed_by(call))
            case ast.AugAssign(target=target):
                reads.add(_path(target) or ("self",))
            case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"))]) if _makes_objects(
                node
            ):
                reads.add(("self", "__init__"))
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                writes.add((name,))
            case ast.Call(func=ast.Attribute(value=ast.Name("self"))):
                reads.add(("self",))
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _CHANGING:
                writes.add(_path(owner) or ("self",))
            case ast.alias():
                writes.add(((node.asname or node.name).partition(".")[0],))
            case _ if isinstance(node, _LEAVES):
                writes.add(("*",))
    return Effect(frozenset(reads), frozenset(writes))


def _nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of `statement`, chains of attributes as one.

    The variables of comprehensions are nobody else's.
    """
    stack: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while stack:
        node, own = stack.pop()
        path = _path(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if path is not None and path[0] in own:
            continue
        yield node
        if path is not None:
            continue
        inner = own
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            first = node.generators[0].iter  # evaluated outside
            stack.append((first, own))
            inner = own | set(bound_names(generator.target for generator in node.generators))
        stack += [(child, inner) for child in ast.iter_child_nodes(node)]


def _path(node: ast.expr) -> Path | None:
    """`self.act.fn` as a path; None for what is no chain of names."""
    match node:
        case ast.Name(name):
            return (name,)
        case ast.Attribute(value=inner, attr=attr):
            above = _path(inner)
            return None if above is None else (*above, attr)
    return None


def _changed_by(call: ast.Call) -> Iterator[Path]:
    """What a call for its effect may change: its object, and its arguments."""
    match call.func:
        case ast.Attribute(
            value=ast.Name("self"), attr="register_buffer" | "register_parameter" | "add_module"
        ):
            if call.args and isinstance(call.args[0], ast.Constant):
                yield ("self", str(call.args[0].value))
                return
            yield ("self",)
        case ast.Attribute(value=ast.Call(func=ast.Name("super")), attr="__init__"):
            yield ("self", "__init__")  # before it, only modules cannot be assigned
        case ast.Attribute(value=ast.Call(func=ast.Name("super"))):
            yield ("self",)
        case ast.Attribute(value=owner):
            yield _path(owner) or ("self",)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        path = _path(argument)
        if path is not None and path != ("config",):
            yield path


def _overlap(some: frozenset[Path], others: frozenset[Path]) -> bool:
    """Whether one of the paths is, or holds, one of the others."""
    return any(one[: len(other)] == other[: len(one)] for one in some for other in others)
