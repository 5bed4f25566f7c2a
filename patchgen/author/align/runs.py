"""Find the statements of a pattern in a method; `...` matches any run of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.align.ellipsis import is_ellipsis, is_made_up
from patchgen.author.align.suites import key, suites_of


@dataclass(frozen=True, eq=False)
class Run:
    """A run of statements in one suite of the parent's method."""

    suite: Sequence[ast.stmt]
    start: int
    stop: int


def find_runs(pattern: Sequence[ast.stmt], suites: Iterable[Sequence[ast.stmt]]) -> list[Run]:
    """The runs of statements that a pattern matches, each the shortest from its beginning."""
    found = []
    for suite in suites:
        for start in range(len(suite)):
            stop = next(_ends(pattern, suite, start), None)
            if stop is not None:
                found.append(Run(suite, start, stop))
    return found


def all_suites(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """Every suite of a method, itself first."""
    yield body
    for node in body:
        for inner in suites_of(node):
            if inner:
                yield from all_suites(inner)


def _ends(pattern: Sequence[ast.stmt], code: Sequence[ast.stmt], at: int) -> Iterator[int]:
    """Where a run that begins at `at` may end, shortest first."""
    if not pattern:
        yield at
    elif is_ellipsis(pattern[0]):
        for stop in range(at, len(code) + 1):
            yield from _ends(pattern[1:], code, stop)
    elif at < len(code) and _fits(pattern[0], code[at]):
        yield from _ends(pattern[1:], code, at + 1)


def _fits(pattern: ast.stmt, code: ast.stmt) -> bool:
    if type(pattern) is not type(code):
        return False
    if not is_made_up(pattern):
        return key(pattern) == key(code)
    for name, value in ast.iter_fields(pattern):
        other = getattr(code, name)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            if not any(stop == len(other) for stop in _ends(value, other, 0)):
                return False
        elif isinstance(value, list):
            if len(value) != len(other) or any(
                _text(a) != _text(b) for a, b in zip(value, other, strict=True)
            ):
                return False
        elif _text(value) != _text(other):
            return False
    return True


def _text(value: object) -> str:
    return key(value) if isinstance(value, ast.AST) else repr(value)
