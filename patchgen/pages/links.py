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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.plan.model import EditMatch, Lines
from patchgen.pages.outline import Outline, read_outline

KINDS = ("parent", "declaration", "rewritten", "made", "blank")


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

    `lines` are those of the output, `before` those of the parent that they replace.  Either may
    be empty: then `last` is `first - 1`.
    """

    lines: Lines
    before: Lines
    edits: tuple[EditMatch, ...] = ()

    @property
    def replaces(self) -> bool:
        """Whether it replaces lines of the parent, and does not only add some."""
        return self.before.last >= self.before.first


def link_lines(
    file: FlatFile, sources: Sources, hunks: Sequence[Hunk], alike: Mapping[int, Lines]
) -> tuple[Link, ...]:
    """A link for each line of `file`, in order.

    `alike` are the lines that the parent has too, by the number in the output.
    """
    lines = file.text.split("\n")[:-1]
    links: dict[int, Link] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            links[number] = Link("blank")
    for origin in file.lines:  # the compiler's map
        kind = sources.kind(origin.path)
        for number in range(origin.first, origin.last + 1):
            at_line = origin.line + number - origin.first
            if lines[number - 1].strip():
                at = Lines(origin.path, at_line, at_line)
                links[number] = Link(kind, (at,))
    for number, at in alike.items():
        links.setdefault(number, Link("parent", (at,)))
    _link_words(file.text, sources, links)
    _link_hunks(hunks, links)
    _link_classes(file.text, sources, links)
    _link_neighbours(file.text, lines, links)
    return tuple(links.get(number, Link("made")) for number in range(1, len(lines) + 1))


def _link_words(text: str, sources: Sources, links: dict[int, Link]) -> None:
    """Link lines that a source has word for word; of several, in the definition of their name."""
    outline = read_outline(text)
    # The declaration first: what it says counts where both say the same.
    paths = sorted(sources.texts, key=lambda path: path in sources.parents)
    outlines = {path: read_outline(sources.texts[path]) for path in paths}
    for number, words in outline.says.items():
        if number in links:
            continue
        owner = outline.owners.get(number, "")
        place = _find_words(words, owner, outlines)
        if place is not None:
            links[number] = Link(sources.kind(place.path), (place,))


def _find_words(words: Sequence[str], owner: str, outlines: Mapping[str, Outline]) -> Lines | None:
    """The first line of a source that says one of the words."""
    for path, outline in outlines.items():
        for word in words:
            if line := outline.by_owner.get((owner, word)):
                return Lines(path, line, line)
    for path, outline in outlines.items():
        for word in words:
            if line := outline.by_text.get(word):
                return Lines(path, line, line)
    return None


def _link_hunks(hunks: Sequence[Hunk], links: dict[int, Link]) -> None:
    """Link changed lines to what they replace, and to the edit that replaced it."""
    for hunk in hunks:
        before = (hunk.before,) if hunk.replaces else ()
        new = tuple(edit.new for edit in hunk.edits)
        both = (*new, *before)
        kind = "rewritten" if before else "declaration"
        lines = hunk.lines
        for number in range(lines.first, lines.last + 1):
            link = links.get(number)
            if link is None and both:
                links[number] = Link(kind, both)
            elif link is not None and link.kind == "declaration":
                links[number] = Link("declaration", (*link.sources, *before))


def _link_classes(text: str, sources: Sources, links: dict[int, Link]) -> None:
    """Link the head of each class to the class of that name in the modular file too."""
    heads = read_outline(text).classes
    for path, source in sources.texts.items():
        if path in sources.parents:
            continue
        for name, line in read_outline(source).classes.items():
            if name not in heads:
                continue
            head = heads[name]
            link = links.get(head, Link("declaration"))
            declared = Lines(path, line, line)
            if declared not in link.sources:
                links[head] = Link(link.kind, (declared, *link.sources))


def _link_neighbours(text: str, lines: Sequence[str], links: dict[int, Link]) -> None:
    """Link what is left inside a definition to the nearest lines of that definition."""
    for first, last in read_outline(text).definitions:
        linked = []
        unlinked = []
        for number in range(first, last + 1):
            if number in links and links[number].sources:
                linked.append(number)
            # Comments are the converter's alone.
            elif number not in links and not lines[number - 1].startswith("#"):
                unlinked.append(number)
        if not linked:
            continue
        for number in unlinked:
            nearest = min(linked, key=lambda other: abs(other - number))
            links[number] = Link("rewritten", links[nearest].sources)


def compare(
    file: FlatFile, parent: str, edits: Sequence[EditMatch]
) -> tuple[tuple[Hunk, ...], dict[int, Lines]]:
    """Where `file` differs from its parent, whose text is `parent`, and the lines that both have.

    Of a new model, nothing: it is compared with no parent.
    """
    if file.diff_base is None:
        return (), {}
    path, base = file.diff_base
    # By the number of a line in the base of the diff, that in the parent itself.
    in_parent: dict[int, int] = {}
    for start, first, size in _matcher(base, parent).get_matching_blocks():
        for offset in range(1, size + 1):
            in_parent[start + offset] = first + offset
    definitions = read_outline(parent).definitions
    hunks = []
    alike: dict[int, Lines] = {}
    for tag, start, stop, first, last in _matcher(base, file.text).get_opcodes():
        known = [number for number in range(start + 1, stop + 1) if number in in_parent]
        if tag == "equal":
            for number in known:
                line = in_parent[number]
                alike[first + number - start] = Lines(path, line, line)
            continue
        replaced = [in_parent[number] for number in known]
        # Where nothing is replaced, the place is below what stands above.
        lines_above = [line for number, line in in_parent.items() if number <= start]
        above = max(lines_above, default=0)
        top = min(replaced, default=above + 1)
        bottom = max(replaced, default=above)
        before = Lines(path, top, bottom)
        matches = _edits_at(before, edits, definitions)
        hunks.append(Hunk(Lines(file.name, first + 1, last), before, matches))
    return tuple(hunks), alike


def _matcher(text: str, other: str) -> difflib.SequenceMatcher[str]:
    lines = text.split("\n")[:-1]
    return difflib.SequenceMatcher(None, lines, other.split("\n")[:-1], autojunk=False)


def _edits_at(
    before: Lines, edits: Sequence[EditMatch], definitions: Sequence[tuple[int, int]]
) -> tuple[EditMatch, ...]:
    """The edits that replace one of the lines `before`, or what stands right above them.

    Of an edit whose lines are not known, any line of the method counts.
    """
    last = max(before.first, before.last)
    near = []
    vague = []
    for edit in edits:
        for match in edit.found:
            if match.path != before.path:
                continue
            if edit.known and match.first <= last and before.first - 1 <= match.last:
                near.append(edit)
            # The innermost definition around the match holds the last line too.
            around = [lines for lines in definitions if lines[0] <= match.first <= lines[1]]
            if not edit.known and around and around[0][0] <= last <= around[0][1]:
                vague.append(edit)
    return tuple(near or vague)
