"""`patchgen errors`: the catalogue of errors, as text and as the page docs/errors.md."""

from __future__ import annotations

import click

from patchgen.cli.options import option
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


@click.command()
@click.argument("codes", nargs=-1, metavar="[PGnnn]...")
@option("--markdown", "Print the page docs/errors.md.")
def errors(codes: tuple[str, ...], markdown: bool) -> int:
    """A prefix such as PG1 lists the codes that start with it.

    \b
    Example:
      patchgen errors PG501
    """
    text = as_markdown() if markdown else "\n".join(map(_about, codes or ("PG",)))
    click.echo(text, nl=False)
    return 0


def _about(asked: str) -> str:
    """The explanation of the code `asked`, or a list of all codes that start with it."""
    known, code = catalogue(), asked.upper()
    if code in known:
        entry = known[code]
        return f"{code}: {_explain(entry, 'What to do:', '')}"
    family = [entry for name, entry in known.items() if code and name.startswith(code)]
    if not family:
        raise click.UsageError(f"no such code: {asked}. {did_you_mean(code, known)}")
    return "".join(f"{entry.code}  {entry.title}\n" for entry in family)


def as_markdown() -> str:
    """docs/errors.md."""
    entries = catalogue().values()
    sections = [f"## {e.code}: {_explain(e, '**What to do:**', '```')}" for e in entries]
    return "\n".join([_HEAD, *sections])


def _explain(entry: Explanation, todo: str, fence: str) -> str:
    text = f"{entry.title}\n\n{entry.why.strip()}\n\n{todo} {entry.fix.strip()}\n"
    if not entry.example:
        return text
    open_fence, close_fence = (f"{fence}\n", f"\n{fence}") if fence else ("", "")
    return f"{text}\n{open_fence}{entry.example.strip()}{close_fence}\n"
