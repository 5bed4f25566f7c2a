"""Write a variant's page and the index: templates, with everything they need inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from patchgen.compiler.plan.model import EditMatch, Lines
from patchgen.pages.changes import Change
from patchgen.pages.highlight import highlight_lines
from patchgen.pages.links import KINDS, Link
from patchgen.pages.trace import Traced, Variant
from patchgen.pages.verdicts import Verdict

LIMIT = 1_000_000  # bytes of a page


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file in one of the three panes; each line is its class and its HTML."""

    number: int
    path: str
    lines: tuple[tuple[str, Markup], ...]


@dataclass(frozen=True, slots=True)
class Pane:
    """One of the three columns."""

    name: str
    title: str
    files: tuple[ShownFile, ...]


def render_page(variant: Variant, verdicts: Sequence[Verdict]) -> str:
    """The page of `variant`."""
    panes = _make_panes(variant)
    numbers = {file.path: file.number for pane in panes for file in pane.files}
    changes = [change for output in variant.outputs for change in output.changes]
    template = _templates().get_template("page.html")
    return template.render(
        variant=variant,
        verdicts=verdicts,
        panes=panes,
        changes=changes,
        numbers=numbers,
        total=sum(variant.counts.values()),
        data=_page_data(variant, changes, numbers),
    )


def render_index(rows: Sequence[tuple[Variant, Sequence[Verdict]]]) -> str:
    """The page that leads to the pages of all variants."""
    total = {kind: sum(variant.counts[kind] for variant, _ in rows) for kind in KINDS}
    return _templates().get_template("index.html").render(rows=rows, total=total)


def _templates() -> Environment:
    loader = PackageLoader("patchgen.pages")
    # Autoescaping for every template: all of them are parts of an HTML file.
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _make_panes(variant: Variant) -> tuple[Pane, ...]:
    """The declaration, the outputs and the parents, their files numbered through."""
    marks = _find_marks(variant)
    declared = [(p, text) for p, text in variant.texts.items() if p not in variant.parents]
    made = [(output.file.name, output.file.text) for output in variant.outputs]
    parents = [(p, text) for p, text in variant.texts.items() if p in variant.parents]
    panes: list[Pane] = []
    number = 0
    for name, title, texts in (
        ("declaration", "Declaration", declared),
        ("flat", "Flat file", made),
        ("parent", "Parent", parents),
    ):
        files = []
        for path, text in texts:
            files.append(_show_file(number, path, text, marks))
            number += 1
        panes.append(Pane(name, title, tuple(files)))
    return tuple(panes)


def _show_file(
    number: int, path: str, text: str, marks: Mapping[tuple[str, int], str]
) -> ShownFile:
    lines = tuple(
        (marks.get((path, line), ""), html) for line, html in enumerate(highlight_lines(text), 1)
    )
    return ShownFile(number, path, lines)


def _find_marks(variant: Variant) -> dict[tuple[str, int], str]:
    """The class of each line that is not simply the parent's: new lines and replaced ones."""
    marks: dict[tuple[str, int], str] = {}
    for output in variant.outputs:
        for number, link in enumerate(output.links, 1):
            if link.kind in ("declaration", "rewritten", "made"):
                marks[output.file.name, number] = link.kind
        kept = _kept_lines(output)
        for change in output.changes:
            for source in change.sources:
                for line in range(source.first, source.last + 1):
                    if source.path in variant.parents and (source.path, line) not in kept:
                        marks[source.path, line] = "replaced"
    return marks


def _kept_lines(output: Traced) -> set[tuple[str, int]]:
    """The lines of parents that stand in the output."""
    return {
        (source.path, line)
        for link in output.links
        if link.kind == "parent"
        for source in link.sources
        for line in range(source.first, source.last + 1)
    }


def _page_data(
    variant: Variant, changes: Sequence[Change], numbers: Mapping[str, int]
) -> dict[str, Any]:
    """What the script reads.

    A reference is [file, first line, last line].  A run is [first line, last line, kind,
    references, steps]; where it steps, each further line of the run is one further in every
    reference.
    """

    def refer(lines: Lines) -> list[int]:
        return [numbers[lines.path], lines.first, lines.last]

    return {
        "kinds": KINDS,
        "counts": variant.counts,
        "outputs": {
            numbers[output.file.name]: _make_runs(output.links, numbers)
            for output in variant.outputs
        },
        "changes": [
            {
                "title": change.title,
                "lines": refer(change.lines),
                "sources": [refer(source) for source in change.sources],
                "edits": [edit.name for edit in change.edits],
            }
            for change in changes
        ],
        "edits": [_describe_edit(edit, numbers) for edit in variant.edits],
    }


def _describe_edit(edit: EditMatch, numbers: Mapping[str, int]) -> dict[str, Any]:
    found = [lines for lines in edit.found if lines.path in numbers]
    return {
        "name": edit.name,
        "declared": [numbers[edit.declared.path], edit.declared.first, edit.declared.last],
        "found": [[numbers[lines.path], lines.first, lines.last] for lines in found],
    }


def _make_runs(links: Sequence[Link], numbers: Mapping[str, int]) -> list[list[Any]]:
    """The links with neighbours joined: those with equal sources, and those that go along."""

    def key(numbered: tuple[int, Link]) -> tuple[Any, ...]:
        number, link = numbered
        # The distance stays the same where both sides go on by one line.
        if all(source.first == source.last for source in link.sources):
            places = tuple((source.path, source.first - number) for source in link.sources)
            return link.kind, True, places
        return link.kind, False, link.sources

    runs: list[list[Any]] = []
    for (kind, steps, _), group in groupby(enumerate(links, 1), key):
        members = list(group)
        sources = members[0][1].sources
        refs = [[numbers[source.path], source.first, source.last] for source in sources]
        runs.append([members[0][0], members[-1][0], KINDS.index(kind), refs, int(steps)])
    return runs
