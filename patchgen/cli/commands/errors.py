"""The catalogue of errors: `patchgen explain PGnnn`.

python -m patchgen.cli.commands.errors        prints the page docs/errors.md
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.options import option
from patchgen.syntax.errors import Explanation, catalogue, did_you_mean

_WIDTH = 96  # of text; it is indented by four


@click.command()
@click.argument("codes", nargs=-1, metavar="[PGnnn]...")
@option("--markdown", "Print the page docs/errors.md.")
def errors(codes: tuple[str, ...], markdown: bool) -> int:
    """A prefix such as PG1 lists the codes that start with it.

    \b
    Example:
      patchgen errors PG501
    """
    text = as_markdown() if markdown else "\n".join(map(about_code, codes or ("PG",)))
    terminal.write(text)
    return 0


def about_code(asked: str) -> str:
    """The explanation of the code `asked`, or a list of all codes that start with it."""
    entries = catalogue()
    code = asked.upper()
    if code in entries:
        return _as_text(entries[code])
    family = [entry for name, entry in entries.items() if code and name.startswith(code)]
    if not family:
        raise click.UsageError(f"no such code: {asked}. {did_you_mean(code, entries)}")
    return "".join(f"{entry.code}  {entry.title}\n" for entry in family)


def _as_text(entry: Explanation) -> str:
    """The explanation for a terminal."""
    parts = [f"{entry.code}: {entry.title}\n"]
    for heading, text in entry.sections.items():
        # Lines of an example stay as they are.
        if text != entry.example:
            text = textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        parts.append(f"{heading}:\n{textwrap.indent(text, '    ')}\n")
    return "\n".join(parts)


def as_markdown() -> str:
    """docs/errors.md."""
    head = disk.text_of(Path(__file__).parents[1] / "errors.md")
    return "\n".join([head, *map(_as_section, catalogue().values())])


def _as_section(entry: Explanation) -> str:
    """The explanation as a section of the page."""
    parts = [f"## {entry.code}: {entry.title}\n"]
    for heading, text in entry.sections.items():
        if text == entry.example:
            language = "python" if entry.is_code else "text"
            parts.append(f"**{heading}:**\n\n```{language}\n{text}\n```\n")
        else:
            parts.append(f"**{heading}:** {text}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    terminal.write(as_markdown())
