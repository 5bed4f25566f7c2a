"""`patchgen lsp`."""

from __future__ import annotations

import click


@click.command()
def lsp() -> int:
    """It speaks the language server protocol over stdin and stdout.  In modular files, an editor
    gets what `check` says as you type, the parent's method by "go to definition", and lenses that
    open the flat file, its diff and the parent's classes.  It needs pygls, which is
    in patchgen's extra "lsp".

    \b
    Example:
      patchgen lsp
    """
    # Imported here: only editors need pygls.
    try:
        from patchgen.cli.language_server import server
    except ModuleNotFoundError as error:
        from patchgen.project.origin import install_hint

        raise click.ClickException(f"needs {error.name}: {install_hint('lsp')}") from error
    server.start_io()
    return 0
