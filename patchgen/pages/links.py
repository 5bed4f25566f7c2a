"""Link each line of an output to the lines that it comes from.

    kind           comes from                                   linked to
    parent         the parent, unchanged or reformatted         its line there
    declaration    the modular file or a part                   its line there, and what it replaces
    rewritten      both, or a renamed or joined statement       the nearest lines it was made from
    made           the converter: banner, imports, `__all__`    nothing, or what it was made from
    blank          nothing

The compiler's line map comes first: it is exact.  It has no imports, and no lines that were
renamed; these are found by what they bind, by what they say, and by where they stand.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.plan.model import EditMatch, Lines
from patchgen.pages.statements import StatementLines, Statements, read_statements

KINDS = ("parent", "declaration", "rewritten", "made", "blank")
# Texts of the converter alone, as the lines begin.
_MADE = ("#",)


@dataclass(frozen=True, slots=True)
class Link:
    """Where one line of an output comes from; only made and blank lines may have no sources."""

    kind: str
    sources: tuple[Lines, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """The texts, by path, that an output was made from, and which of them are parents."""

    texts: Mapping[str, str]
    parents: frozenset[str]

    def kind(self, path: str) -> str:
        """Whether lines of `path` are the parent's or the declaration's."""
        return "parent" if path in self.parents else "declaration"


@dataclass(frozen=True, slots=True)
class Hunk:
    """A place where an output differs from its parent.

    `made` are the lines of the output, `before` those of the parent that they replace.  Either may
    be empty: then `last` is `first - 1`.
    """

    made: Lines
    before: Lines
    edits: tuple[EditMatch, ...] = ()


def link_lines(
    file: FlatFile, sources: Sources, hunks: Sequence[Hunk], alike: Mapping[int, Lines]
) -> tuple[Link, ...]:
    """A link for each line of `file`, in order.

    `alike` are the lines that the parent has too, by the number in the output.
    """
    lines = file.text.split("\n")[:-1]
    links: dict[int, Link] = {
        number: Link("blank") for number, line in enumerate(lines, 1) if not line.strip()
    }
    for number, at in _exact(file, lines):
        links[number] = Link(sources.kind(at.path), (at,))
    for number, at in alike.items():
        links.setdefault(number, Link("parent", (at,)))
    _link_comments(lines, sources, links)
    _link_statements(file.text, sources, links)
    _link_hunks(hunks, sources, links)
    _link_classes(file.text, sources, links)
    _link_neighbours(file.text, lines, links)
    return tuple(links.get(number, Link("made")) for number in range(1, len(lines) + 1))


def _exact(file: FlatFile, lines: Sequence[str]) -> Iterator[tuple[int, Lines]]:
    """The lines of the compiler's map."""
    for origin in file.lines:
        for number in range(origin.first, origin.last + 1):
            there = origin.line + number - origin.first
            if lines[number - 1].strip():
                yield number, Lines(origin.path, there, there)


def _link_comments(lines: Sequence[str], sources: Sources, links: dict[int, Link]) -> None:
    """Link comments at the margin, such as a licence: no statement has them."""
    places: dict[str, Lines] = {}
    for path in sorted(sources.parents):
        for number, line in enumerate(sources.texts[path].split("\n"), 1):
            places.setdefault(line, Lines(path, number, number))
    for number, line in enumerate(lines, 1):
        if line.startswith("# ") and number not in links and line in places:
            links[number] = Link("parent", (places[line],))


def _link_statements(text: str, sources: Sources, links: dict[int, Link]) -> None:
    """Link statements that a source has word for word, whatever their formatting."""
    known = {path: read_statements(source) for path, source in sources.texts.items()}
    # The declaration first: what it says counts where both say the same.
    ordered = sorted(known, key=lambda path: path in sources.parents)
    for place in read_statements(text).places:
        missing = [n for n in range(place.first, place.last + 1) if n not in links]
        if not missing:
            continue
        found = _find(place, ordered, known)
        for number in missing if found else ():
            assert found is not None
            links[number] = Link(sources.kind(found.path), (found,))


def _find(
    place: StatementLines, ordered: Sequence[str], known: Mapping[str, Statements]
) -> Lines | None:
    """Find `place` in a source; of several, in the definition of the same name."""
    for by_owner in (True, False):
        for path in ordered:
            other = known[path].find(place, by_owner)
            if other is not None:
                return Lines(path, other.first, other.last)
    return None


def _link_hunks(hunks: Sequence[Hunk], sources: Sources, links: dict[int, Link]) -> None:
    """Link changed lines to what they replace, and to the edit that replaced it."""
    for hunk in hunks:
        # A hunk that only adds lines replaces none.
        before = (hunk.before,) if hunk.before.last >= hunk.before.first else ()
        new = tuple(edit.new for edit in hunk.edits)
        linked = (*new, *before)
        for number in range(hunk.made.first, hunk.made.last + 1):
            link = links.get(number)
            if link is None and linked:
                links[number] = Link("rewritten" if before else "declaration", linked)
            elif link is not None and link.kind == "declaration":
                links[number] = Link(link.kind, (*link.sources, *before))


def _link_classes(text: str, sources: Sources, links: dict[int, Link]) -> None:
    """Link the head of each class to the class of that name in the modular file too."""
    made = read_statements(text).classes
    for path, source in sources.texts.items():
        if path in sources.parents:
            continue
        for name, declared in read_statements(source).classes.items():
            if name not in made:
                continue
            number, at = made[name].first, Lines(path, declared.first, declared.last)
            link = links.get(number, Link("declaration"))
            if at not in link.sources:
                links[number] = Link(link.kind, (at, *link.sources))


def _link_neighbours(text: str, lines: Sequence[str], links: dict[int, Link]) -> None:
    """Link what is left inside a definition to the nearest lines of that definition."""
    for first, last in read_statements(text).definitions:
        placed = [n for n in range(first, last + 1) if n in links and links[n].sources]
        for number in range(first, last + 1):
            if number in links or not placed or lines[number - 1].startswith(_MADE):
                continue
            nearest = min(placed, key=lambda other: abs(other - number))
            links[number] = Link("rewritten", links[nearest].sources)


def find_hunks(file: FlatFile, parent: str, edits: Sequence[EditMatch]) -> tuple[Hunk, ...]:
    """Where `file` differs from its parent, whose text is `parent`; () for a new model."""
    if file.diff_base is None:
        return ()
    path, base = file.diff_base
    there = _align_lines(base, parent)
    methods = read_statements(parent).definitions
    hunks = []
    for tag, start, stop, first, last in _matcher(base, file.text).get_opcodes():
        if tag == "equal":
            continue
        lines = [there[number] for number in range(start + 1, stop + 1) if number in there]
        above = max((there[n] for n in range(1, start + 1) if n in there), default=0)
        before = Lines(path, min(lines, default=above + 1), max(lines, default=above))
        made = Lines(file.name, first + 1, last)
        hunks.append(Hunk(made, before, _edits_at(before, edits, methods)))
    return tuple(hunks)


def find_alike(file: FlatFile, parent: str) -> dict[int, Lines]:
    """The lines of `file` that its parent, whose text is `parent`, has too, by number."""
    if file.diff_base is None:
        return {}
    path, base = file.diff_base
    there = _align_lines(base, parent)
    found = {}
    for start, first, size in _matcher(base, file.text).get_matching_blocks():
        for offset in range(size):
            line = there.get(start + offset + 1)
            if line is not None:
                found[first + offset + 1] = Lines(path, line, line)
    return found


def _align_lines(text: str, other: str) -> dict[int, int]:
    """The lines of `text` that `other` has too: by the number in `text`, that in `other`."""
    found = {}
    for start, first, size in _matcher(text, other).get_matching_blocks():
        for offset in range(size):
            found[start + offset + 1] = first + offset + 1
    return found


def _matcher(text: str, other: str) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(
        None, text.split("\n")[:-1], other.split("\n")[:-1], autojunk=False
    )


def _edits_at(
    before: Lines, edits: Sequence[EditMatch], methods: Sequence[tuple[int, int]]
) -> tuple[EditMatch, ...]:
    """The edits that replace one of the lines `before`, or what stands right above them.

    Of an edit whose lines are not known, any line of the method counts.
    """
    last = max(before.first, before.last)
    near, vague = [], []
    for edit in edits:
        for found in edit.found:
            if found.path != before.path:
                continue
            if edit.known and found.first <= last and before.first - 1 <= found.last:
                near.append(edit)
            elif not edit.known and _method_at(found.first, methods, last):
                vague.append(edit)
    return tuple(near or vague)


def _method_at(line: int, methods: Sequence[tuple[int, int]], other: int) -> bool:
    """Whether the innermost definition around `line` also holds the line `other`."""
    around = next((lines for lines in methods if lines[0] <= line <= lines[1]), None)
    return around is not None and around[0] <= other <= around[1]
