"""The page of a survey in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen.author.survive.report import Row, shortened, summary
from patchgen.author.survive.states import CONVERTS
from patchgen.author.survive.survey import Survey
from patchgen.project.markdown import table_lines

_HEADS = ("variant", "converts on", "its output changed in", "does not convert on")
_ABOUT = """\
Each variant was converted on each of these releases, from the same modular file. Nothing was
imported or run. So a variant that converts may still fail or compute something else there:
`patchgen verify` finds out.
"""


def page_of(rows: tuple[Row, ...], survey: Survey, command: str, picture: str) -> str:
    """The page; `command` writes it again, and `picture` is the file that it shows."""
    lines = [
        "# Variants and releases of transformers",
        "",
        f"Written by `{command}`.",
        "",
        _ABOUT,
        f"![Variants by releases]({picture})",
        "",
        f"{summary(rows, survey).partition(' (')[0]}.",
        "",
        *table_lines(_HEADS, [_cells(row) for row in rows]),
    ]
    broken = [row for row in rows if row.breaks]
    if broken:
        lines += ["", "## What made the difference", ""]
        lines += [
            "For each of these variants, the change of its parent that decides whether it converts."
        ]
    for row in broken:
        lines += _section(row)
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    good = [span for span in row.spans if span.state in CONVERTS]
    other = [span for span in row.spans if span.state not in CONVERTS]
    changed = [version for span in good for version in span.changed]
    return (
        row.name,
        ", ".join(span.text for span in good) or "none",
        ", ".join(changed),
        "; ".join(f"{span.text}: {span.state}" for span in other),
    )


def _section(row: Row) -> Iterator[str]:
    yield from ("", f"### {row.name}")
    for one in row.breaks:
        yield from ("", f"{one.text[0].upper()}{one.text[1:]}. Otherwise: {one.problem}.")
        diff = shortened(one.diff) if one.diff else []
        if diff:
            yield from ("", "```diff", *diff, "```")
