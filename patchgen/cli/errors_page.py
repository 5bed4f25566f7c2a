"""The catalogue of errors as a page of the documentation and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

import click

from patchgen.errors import Explanation, catalogue, did_you_mean

_HEAD = """# Errors

Every message is `file:line:column: PGnnn what`, with a hint. This page explains the codes; `patchgen errors PGnnn`
prints the same. It is made from `patchgen/catalogue.toml` by `patchgen errors --markdown`.

PG0xx: reading a file. PG1xx: what names stand for. PG2xx: merging classes. PG3xx: edits. PG4xx: the flat module.
PG5xx: the gate. PG6xx: files of transformers itself. PG7xx: what `patchgen lint` says of those. PG80x: `patchgen new`.
PG81x: training. PG82x: memory and benchmarks. PG83x to PG85x: several processes, and the plans by which they split a
model. PG9xx: the project and the machine; these exit with 2, all others with 1.

A class that cannot be merged with its parents stays a subclass of them. PG124, PG201 to PG214, PG220 to PG225, PG240
and PG241 are therefore said only of a class that makes edits, which are made in the text of a parent that is merged.
"""


def about(asked: str) -> str:
    """The code `asked` in full, or a list of all codes that begin so.

    Raises click.UsageError where there is none.
    """
    known, code = catalogue(), asked.upper()
    if code in known:
        return as_text(known[code])
    family = [entry for name, entry in known.items() if code and name.startswith(code)]
    if not family:
        raise click.UsageError(f"no such code: {asked}. {did_you_mean(code, known)}")
    return as_list(family)


def as_markdown() -> str:
    """docs/errors.md."""
    return "\n".join([_HEAD, *(_section(entry) for entry in catalogue().values())])


def _section(entry: Explanation) -> str:
    example = f"\n```\n{entry.example.strip()}\n```\n" if entry.example else ""
    return f"## {entry.code}: {entry.title}\n\n{entry.why.strip()}\n\n**What to do:** {entry.fix.strip()}\n{example}"


def as_text(entry: Explanation) -> str:
    """One explanation in full."""
    example = f"\n{entry.example.strip()}\n" if entry.example else ""
    return f"{entry.code}: {entry.title}\n\n{entry.why.strip()}\n\nWhat to do: {entry.fix.strip()}\n{example}"


def as_list(entries: Iterable[Explanation]) -> str:
    """One line a code."""
    return "".join(f"{entry.code}  {entry.title}\n" for entry in entries)
