"""List the changes of an output, in its order, so that a reader can go from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.plan.model import EditMatch, Lines
from patchgen.pages.links import Hunk, Link
from patchgen.pages.outline import read_outline

_NEAR = 3  # unchanged lines that do not divide a change of one definition


@dataclass(frozen=True, slots=True)
class Change:
    """One place where an output differs from its parent.

    `title` is the definition that it stands in, `lines` are those of the output (none where lines
    were only removed: then `last` is `first - 1`), `sources` what they were made from and what they
    replace.
    """

    title: str
    lines: Lines
    sources: tuple[Lines, ...]
    edits: tuple[EditMatch, ...] = ()


def list_changes(
    file: FlatFile, links: Sequence[Link], hunks: Sequence[Hunk]
) -> tuple[Change, ...]:
    """The changes of `file`; of a new model, which replaces nothing, what is not its parent's."""
    owners = read_outline(file.text).owners
    places = hunks if file.diff_base is not None else list(_declared_runs(file, links))
    joined: list[Change] = []
    for hunk in places:
        title = owners.get(hunk.lines.first, "module")
        change = Change(title, hunk.lines, _sources(hunk, links), hunk.edits)
        if joined and _are_near(joined[-1], change):
            last = joined.pop()
            change = Change(
                title,
                Lines(last.lines.path, last.lines.first, change.lines.last),
                _join_lines([*last.sources, *change.sources]),
                tuple(dict.fromkeys([*last.edits, *change.edits])),
            )
        joined.append(change)
    return tuple(joined)


def _are_near(last: Change, change: Change) -> bool:
    return last.title == change.title and change.lines.first - last.lines.last <= _NEAR + 1


def _declared_runs(file: FlatFile, links: Sequence[Link]) -> Iterator[Hunk]:
    """The runs of lines that come from the declaration, as places that replace nothing."""
    first = 0
    for number, link in enumerate([*links, Link("parent")], 1):
        is_declared = link.kind in ("declaration", "rewritten")
        if is_declared and not first:
            first = number
        elif first and not is_declared and link.kind != "blank":
            yield Hunk(Lines(file.name, first, number - 1), Lines("", 1, 0))
            first = 0


def _sources(hunk: Hunk, links: Sequence[Link]) -> tuple[Lines, ...]:
    sources = [edit.declared for edit in hunk.edits]
    for link in links[hunk.lines.first - 1 : hunk.lines.last]:
        sources += link.sources
    if hunk.replaces:
        sources.append(hunk.before)
    return _join_lines(sources)


def _join_lines(sources: Iterable[Lines]) -> tuple[Lines, ...]:
    """`sources` by file and line, with those joined that touch or overlap."""
    joined: list[Lines] = []
    ordered = sorted({*sources}, key=lambda lines: (lines.path, lines.first))
    for lines in ordered:
        above = joined[-1] if joined else Lines("", 0, 0)
        touches = lines.first <= above.last + 1
        if touches and lines.path == above.path:
            joined.pop()
            last = max(above.last, lines.last)
            lines = Lines(lines.path, above.first, last)
        joined.append(lines)
    return tuple(joined)
