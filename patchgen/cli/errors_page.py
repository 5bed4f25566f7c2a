"""`patchgen errors`: the catalogue of errors, as a page of Markdown and as text."""

from __future__ import annotations

from collections.abc import Iterable

import click

from patchgen.syntax.errors import Explanation, catalogue, did_you_mean

_HEAD = """# Errors

Every message is `file:line:column: PGnnn what`, with a hint. This page explains the codes;
`patchgen errors PGnnn` prints the same. `patchgen errors --markdown` makes the page from
`patchgen/syntax/catalogue.toml`.

| codes | about |
|---|---|
| PG0xx | reading a file |
| PG1xx | finding what names mean |
| PG2xx | merging classes |
| PG3xx | edits |
| PG4xx | the generated file as a whole |
| PG5xx | whether generated files are up to date |
| PG6xx | modular files of transformers itself |
| PG7xx | what `patchgen lint` finds in modular files that convert |
| PG80x | `patchgen new` |
| PG81x | training |
| PG82x | memory and benchmarks |
| PG83x to PG85x | several processes, and the plans by which they split a model |
| PG9xx | the project and the machine: these exit with 2, all others with 1 |

Four words: the *parent* is the class or file of transformers that you change; the *flat* file or
class is the generated one, in which your code and the parent's stand together; a *declaration* is a
class, function or edit of your modular file; *upstream* is transformers in a newer release.

A class that cannot be merged with its parents stays a subclass of them. So PG201, PG214 and PG223
to PG225 occur only in classes with edits: an edit needs the parent's text.
"""


def about(asked: str) -> str:
    """The explanation of the code `asked`, or a list of all codes that start with it.

    Raises click.UsageError if there is none.
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
    head = f"## {entry.code}: {entry.title}\n\n{entry.why.strip()}\n\n"
    return f"{head}**What to do:** {entry.fix.strip()}\n{example}"


def as_text(entry: Explanation) -> str:
    """One explanation in full."""
    example = f"\n{entry.example.strip()}\n" if entry.example else ""
    head = f"{entry.code}: {entry.title}\n\n{entry.why.strip()}\n\n"
    return f"{head}What to do: {entry.fix.strip()}\n{example}"


def as_list(entries: Iterable[Explanation]) -> str:
    """One line for each code."""
    return "".join(f"{entry.code}  {entry.title}\n" for entry in entries)
