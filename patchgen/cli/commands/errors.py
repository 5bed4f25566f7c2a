"""`patchgen errors`."""

from __future__ import annotations

import click


@click.command()
@click.argument("codes", nargs=-1, metavar="[PGnnn]...")
@click.option("--markdown", is_flag=True, help="Print the page docs/errors.md.")
def errors(codes: tuple[str, ...], markdown: bool) -> int:
    """Explain error codes; without one, list all of them.

    A prefix such as PG1 lists the codes that start with it.

    \b
    Example:
      patchgen errors PG501
    """
    from patchgen.cli import errors_page

    if markdown:
        click.echo(errors_page.as_markdown(), nl=False)
    else:
        click.echo("\n".join(errors_page.about(code) for code in codes or ("PG",)), nl=False)
    return 0
