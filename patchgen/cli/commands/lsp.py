"""`patchgen lsp`."""

from __future__ import annotations

import gc

import click

from patchgen.cli.options import require


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
    require("pygls", "an editor's server", "lsp")
    from patchgen.cli.language_server import server

    gc.enable()  # a server lives for days, and each edit leaves a syntax tree
    server.start_io()
    return 0
