"""Leave out the assignments of a method whose value nobody sees.

    self.act = f(x)             (gone: nothing reads it before the next line)
    self.act = g(x)             self.act = g(x)

The text that transformers' converter writes often has such statements: the parent's assignment
above the child's.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen.upstream.lint.effects import Effect, Path, find_path, overlap, read_effect
from patchgen.upstream.lint.normalize import dumped

# No places: that a statement may leave the method, and that a module's `__init__` has run.
_MARKS: frozenset[Path] = frozenset({("*",), ("self", "__init__")})


def reduce_body(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`body` without assignments whose value nobody sees, since the same target is assigned or
    deleted below.
    """
    kept = _drop_repetitions(body)
    # Without one of them, an earlier one may have no reader either.
    while len(shorter := _drop_dead(kept)) < len(kept):
        kept = shorter
    return kept


def _drop_dead(body: list[ast.stmt]) -> list[ast.stmt]:
    """One pass over `body`, which may make further statements dead."""
    kept = body
    for statement in body:
        target = find_target(statement)
        if target is None or statement not in kept or isinstance(statement, ast.Delete):
            continue
        # `self.x = y.pop()` does more than to assign.
        if read_effect(statement).writes != {target}:
            continue
        place = kept.index(statement)
        end = _find_overwriting(kept, place, target)
        if end is None:
            continue
        # `x = 1` and `del x` go together.
        dead = {place, end} if isinstance(kept[end], ast.Delete) else {place}
        kept = [other for number, other in enumerate(kept) if number not in dead]
    return kept


def _drop_repetitions(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`body` without assignments and checks that stand there already, where nothing they read or
    set has changed.
    """
    kept: list[ast.stmt] = []
    for statement in body:
        if not _is_repeated(statement, kept):
            kept.append(statement)
    return kept


def _is_repeated(statement: ast.stmt, above: Sequence[ast.stmt]) -> bool:
    """Whether the same statement stands above, and still holds."""
    key = dumped(statement)
    earlier = [place for place, other in enumerate(above) if dumped(other) == key]
    own = read_effect(statement)
    if not earlier or not _is_idempotent(statement, own):
        return False
    touched = (own.reads | own.writes) - _MARKS
    for other in above[earlier[-1] + 1 :]:
        if overlap(read_effect(other).writes, touched):
            return False
    return True


def _is_idempotent(statement: ast.stmt, effect: Effect) -> bool:
    """Whether running the statement twice does what running it once does."""
    if _is_call(statement):
        return False
    # `x = x + 1` reads what it sets.
    return not overlap(effect.reads - _MARKS, effect.writes - _MARKS)


def _is_call(statement: ast.stmt) -> bool:
    """Whether something is called, or left, in `statement` for its effect."""
    for node in ast.walk(statement):
        match node:
            case ast.Return() | ast.Expr(value=ast.Call()):
                return True
    return False


def _find_overwriting(body: Sequence[ast.stmt], place: int, target: Path) -> int | None:
    """Where `target`, assigned at `place`, gets another value before anyone reads it."""
    own = frozenset({target})
    for later in range(place + 1, len(body)):
        found = read_effect(body[later])
        if overlap(found.reads, own):
            return None
        if find_target(body[later]) == target:
            return later
        # A part of it, or what it is a part of.
        if overlap(found.writes, own):
            return None
    return None


def find_target(node: ast.stmt) -> Path | None:
    """What a statement with one target assigns or deletes."""
    match node:
        case ast.Assign(targets=[target]) | ast.Delete(targets=[target]):
            return find_path(target)
    return None
