"""`patchgen lsp`."""

from __future__ import annotations

import click


@click.command()
def lsp() -> int:
    """It speaks the language server protocol over stdin and stdout.  In modular files, an editor
    gets what `check` says as you type, the parent's method by "go to definition", and lenses that
    open the flat file, its diff and the parent's classes.  It needs pygls: pip install
    "patchgen[lsp]".

    \b
    Example:
      patchgen lsp
    """
    # Imported here: only editors need pygls.
    try:
        from patchgen.cli.language_server import server
    except ModuleNotFoundError as error:
        raise click.ClickException(f'needs {error.name}: pip install "patchgen[lsp]"') from error
    server.start_io()
    return 0
