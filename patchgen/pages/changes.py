"""List the changes of an output, in its order, so that a reader can go from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.plan.model import EditMatch, Lines
from patchgen.pages.links import Hunk, Link
from patchgen.pages.statements import owner_of

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
    owners = owner_of(file.text)
    found = hunks if file.diff_base is not None else list(_declared_runs(file, links))
    joined: list[Change] = []
    for hunk in found:
        title = owners.get(hunk.made.first, "module")
        change = Change(title, hunk.made, _sources(hunk, links), hunk.edits)
        if joined and _belong_together(joined[-1], change):
            change = _join(joined.pop(), change)
        joined.append(change)
    return tuple(joined)


def _declared_runs(file: FlatFile, links: Sequence[Link]) -> Iterator[Hunk]:
    """The runs of lines that come from the declaration, as places that replace nothing."""
    first = 0
    for number, link in enumerate([*links, Link("parent")], 1):
        is_own = link.kind in ("declaration", "rewritten")
        if is_own and not first:
            first = number
        elif first and not is_own and link.kind != "blank":
            yield Hunk(Lines(file.name, first, number - 1), Lines("", 1, 0))
            first = 0


def _sources(hunk: Hunk, links: Sequence[Link]) -> tuple[Lines, ...]:
    found: dict[Lines, None] = {}
    for link in links[hunk.made.first - 1 : hunk.made.last]:
        found |= dict.fromkeys(link.sources)
    if hunk.before.last >= hunk.before.first:
        found[hunk.before] = None
    found |= dict.fromkeys(edit.declared for edit in hunk.edits)
    return _join_lines(found)


def _join_lines(found: Iterable[Lines]) -> tuple[Lines, ...]:
    """`found` by file and line, with those joined that touch or overlap."""
    joined: list[Lines] = []
    for lines in sorted(found, key=lambda lines: (lines.path, lines.first)):
        last = joined[-1] if joined else Lines("", 0, 0)
        if lines.path == last.path and lines.first <= last.last + 1:
            joined[-1] = Lines(last.path, last.first, max(last.last, lines.last))
        else:
            joined.append(lines)
    return tuple(joined)


def _belong_together(one: Change, other: Change) -> bool:
    return one.title == other.title and other.lines.first - one.lines.last <= _NEAR + 1


def _join(one: Change, other: Change) -> Change:
    return Change(
        one.title,
        Lines(one.lines.path, one.lines.first, other.lines.last),
        _join_lines([*one.sources, *other.sources]),
        tuple(dict.fromkeys([*one.edits, *other.edits])),
    )
