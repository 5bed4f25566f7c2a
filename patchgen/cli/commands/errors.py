"""`patchgen errors`: the catalogue of errors, as text and as the page docs/errors.md."""

from __future__ import annotations

from pathlib import Path

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.options import option
from patchgen.syntax.errors import Explanation, catalogue, did_you_mean


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
    terminal.write(text)
    return 0


def _about(asked: str) -> str:
    """The explanation of the code `asked`, or a list of all codes that start with it."""
    entries = catalogue()
    code = asked.upper()
    if code in entries:
        return f"{code}: {_explain(entries[code], 'What to do:', '')}"
    family = [entry for name, entry in entries.items() if code and name.startswith(code)]
    if not family:
        raise click.UsageError(f"no such code: {asked}. {did_you_mean(code, entries)}")
    return "".join(f"{entry.code}  {entry.title}\n" for entry in family)


def as_markdown() -> str:
    """docs/errors.md."""
    head = disk.text_of(Path(__file__).parents[1] / "errors.md")
    entries = catalogue().values()
    sections = [f"## {e.code}: {_explain(e, '**What to do:**', '```')}" for e in entries]
    return "\n".join([head, *sections])


def _explain(entry: Explanation, todo: str, fence: str) -> str:
    text = f"{entry.title}\n\n{entry.why.strip()}\n\n{todo} {entry.fix.strip()}\n"
    if not entry.example:
        return text
    open_fence, close_fence = (f"{fence}\n", f"\n{fence}") if fence else ("", "")
    return f"{text}\n{open_fence}{entry.example.strip()}{close_fence}\n"
