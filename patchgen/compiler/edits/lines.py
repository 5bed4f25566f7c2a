"""Treat suites as lines: take a part of one, or replace some of its statements.

Statements are counted as `syntax.statements` does.  A line of several statements is divided where
that is needed, and a suite on the line of its header is indented below it where it is changed:

    if x: a(); b()          if x:
                                a()
                                c()         # `b()` replaced
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from patchgen.compiler.edits.syntax import statements

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Lines:
    """Statements with the comments above them, and the comments and blank lines below the last."""

    body: tuple[Line, ...] = ()
    below: tuple[cst.EmptyLine, ...] = ()


def read_lines(suite: cst.BaseSuite) -> Lines:
    """All of `suite`."""
    if isinstance(suite, cst.IndentedBlock):
        body: list[Line] = []
        for line in suite.body:
            if isinstance(line, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                body.append(line)
        return Lines(tuple(body), tuple(suite.footer))
    assert isinstance(suite, cst.SimpleStatementSuite)
    line = cst.SimpleStatementLine(suite.body, trailing_whitespace=suite.trailing_whitespace)
    return Lines((line,))


def part(suite: cst.BaseSuite, start: int, stop: int) -> tuple[Line, ...]:
    """The statements `start` to `stop` as lines."""
    return tuple(_take_part(suite, start, stop))


def _take_part(suite: cst.BaseSuite, start: int, stop: int) -> Iterator[Line]:
    """The lines that hold the statements; a line that is cut becomes two."""
    first = 0
    for line in read_lines(suite).body:
        # A compound statement counts as one.
        size = 1
        if isinstance(line, cst.SimpleStatementLine):
            size = len(line.body)
        here = slice(max(start - first, 0), max(min(stop - first, size), 0))
        first += size
        # Whole lines keep their comments and white space.
        is_whole = here.start == 0 and here.stop == size
        if is_whole:
            yield line
        elif here.start < here.stop and isinstance(line, cst.SimpleStatementLine):
            yield _divide(line, here)


def _divide(line: cst.SimpleStatementLine, here: slice) -> cst.SimpleStatementLine:
    """Some of the statements of one line, with the comments that are about them."""
    *others, last = line.body[here]
    # The last statement of a line needs no semicolon.
    body = [*others, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
    # The comments above the line belong to its first statement.
    if here.start > 0:
        line = line.with_changes(leading_lines=())
    # The comment behind the line belongs to its last statement.
    if here.stop < len(line.body):
        line = line.with_changes(trailing_whitespace=cst.TrailingWhitespace())
    return line.with_changes(body=body)


def replace_statements(
    suite: cst.BaseSuite, changes: Iterable[tuple[int, int, Lines]]
) -> cst.IndentedBlock:
    """`suite` with statements `start` to `stop` replaced by lines, for each of `changes`.

    What stands above the first of them stays; a suite that would be empty is `pass`.
    """
    pieces: list[Lines] = []
    at = 0
    for start, stop, new in sorted(changes, key=lambda change: change[:2]):
        above: tuple[cst.EmptyLine, ...] = ()
        # The comments above replaced statements describe the place, and stay.
        for line in part(suite, start, stop)[:1]:
            above = tuple(line.leading_lines)
        pieces += [Lines(part(suite, at, start)), Lines(below=above), new]
        at = stop
    rest = part(suite, at, len(statements(suite)))
    done = join_lines([*pieces, Lines(rest, read_lines(suite).below)])
    # A suite needs a statement.
    if not done.body:
        done = Lines((cst.SimpleStatementLine([cst.Pass()], leading_lines=done.below),))
    block = suite
    # `if x: a()` gets lines of its own.
    if not isinstance(block, cst.IndentedBlock):
        block = cst.IndentedBlock(())
    return block.with_changes(body=done.body, footer=done.below)


def join_lines(pieces: Iterable[Lines]) -> Lines:
    """All of `pieces`, one below the other."""
    body: list[Line] = []
    above: tuple[cst.EmptyLine, ...] = ()
    for piece in pieces:
        # Comments without statements go above the next statement.
        if not piece.body:
            above = (*above, *piece.below)
            continue
        first, *others = piece.body
        if above:
            first = first.with_changes(leading_lines=(*above, *first.leading_lines))
        body += [first, *others]
        above = piece.below
    return Lines(tuple(body), above)
