"""Write a variant's page and the index: templates, with everything they need inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.filter import Filter
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text

from patchgen.compiler.plan.model import Lines
from patchgen.pages.changes import Change
from patchgen.pages.links import KINDS, Link
from patchgen.pages.trace import Variant
from patchgen.pages.verdicts import Verdict
from patchgen.syntax.shown import printable

LIMIT = 1_000_000  # bytes of a page
# All others have no colour: a page with every name in a tag of its own is three times as long.
_COLOURED = (Comment, Keyword, String, Number, Name.Class, Name.Function, Name.Decorator)


def render_page(variant: Variant, verdicts: Sequence[Verdict]) -> str:
    """The page of `variant`."""
    panes = _make_panes(variant)
    numbers = {}
    for pane in panes:
        for file in pane["files"]:
            numbers[file["path"]] = file["number"]
    changes = list(chain.from_iterable(output.changes for output in variant.outputs))
    template = _templates().get_template("page.html")
    html = template.render(
        variant=variant,
        verdicts=verdicts,
        panes=panes,
        changes=changes,
        numbers=numbers,
        total=sum(variant.counts.values()),
        data=_page_data(variant, changes, numbers),
    )
    return printable(html)


def render_index(rows: Sequence[tuple[Variant, Sequence[Verdict]]]) -> str:
    """The page that leads to the pages of all variants."""
    total = {kind: sum(variant.counts[kind] for variant, _ in rows) for kind in KINDS}
    return printable(_templates().get_template("index.html").render(rows=rows, total=total))


def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("patchgen.pages"),
        autoescape=True,  # all templates are parts of an HTML file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _make_panes(variant: Variant) -> list[dict[str, Any]]:
    """The declaration, the outputs and the parents, their files numbered through.

    Each line of a file is its class and its HTML.
    """
    marks = _find_marks(variant)
    texts = variant.texts.items()
    outputs = [(output.file.name, output.file.text) for output in variant.outputs]
    panes = []
    number = 0
    for name, title, files in (
        ("declaration", "Declaration", [f for f in texts if f[0] not in variant.parents]),
        ("flat", "Flat file", outputs),
        ("parent", "Parent", [f for f in texts if f[0] in variant.parents]),
    ):
        shown = []
        for path, text in files:
            lines = enumerate(_highlight(text), 1)
            marked = tuple((marks.get((path, line), ""), html) for line, html in lines)
            shown.append({"number": number, "path": path, "lines": marked})
            number += 1
        panes.append({"name": name, "title": title, "files": shown})
    return panes


def _find_marks(variant: Variant) -> dict[tuple[str, int], str]:
    """The class of each line that is not simply the parent's: new lines and replaced ones."""
    marks = {}
    for output in variant.outputs:
        kept: set[tuple[str, int]] = set()
        for number, link in enumerate(output.links, 1):
            if link.kind == "parent":
                kept.update(_list_lines(link.sources))
            elif link.kind != "blank":
                marks[output.file.name, number] = link.kind
        for change in output.changes:
            for path, line in _list_lines(change.sources):
                if path in variant.parents and (path, line) not in kept:
                    marks[path, line] = "replaced"
    return marks


def _list_lines(sources: Iterable[Lines]) -> Iterator[tuple[str, int]]:
    """The path and the number of each line of `sources`."""
    for source in sources:
        for line in range(source.first, source.last + 1):
            yield source.path, line


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
        "edits": [
            {
                "name": edit.name,
                "declared": refer(edit.declared),
                "found": [refer(lines) for lines in edit.found if lines.path in numbers],
            }
            for edit in variant.edits
        ],
    }


def _make_runs(links: Sequence[Link], numbers: Mapping[str, int]) -> list[list[Any]]:
    """The links with neighbours joined: those with equal sources, and those that go along."""

    def key(numbered: tuple[int, Link]) -> tuple[str, bool, object]:
        number, link = numbered
        steps = all(source.first == source.last for source in link.sources)
        if not steps:
            return link.kind, steps, link.sources
        # The distance stays the same where both sides go on by one line.
        places = []
        for source in link.sources:
            places.append((source.path, source.first - number))
        return link.kind, steps, places

    runs = []
    groups = groupby(enumerate(links, 1), key)
    for (kind, steps, _), group in groups:
        (first, link), *others = group
        last = first + len(others)
        references = []
        for source in link.sources:
            reference = [numbers[source.path], source.first, source.last]
            references.append(reference)
        of_kind = KINDS.index(kind)
        runs.append([first, last, of_kind, references, int(steps)])
    return runs


class _Few(Filter):  # type: ignore[misc]  # Pygments has no types
    """Keeps the tokens of `_COLOURED`, without finer kinds, and turns all others into text."""

    def filter(self, _lexer: Any, stream: Any) -> Iterator[tuple[Any, str]]:
        for kind, value in stream:
            yield next((coloured for coloured in _COLOURED if kind in coloured), Text), value


def _highlight(text: str) -> list[Markup]:
    """The lines of `text`, escaped and coloured."""
    lexer = PythonLexer(stripnl=False, ensurenl=False, filters=[_Few()])
    html = highlight(text.rstrip("\n"), lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in html.rstrip("\n").split("\n")]
