"""`patchgen explain`."""

from __future__ import annotations

import click

from patchgen.cli.options import package_root


@click.command()
@click.argument("target", metavar="FILE[:LINE]")
@package_root
def explain(target: str, package_root: str | None) -> int:
    """Print how a modular file is read, or where a line comes from.

    For a modular FILE: its plan, and the classes after each pass that changes them.  For FILE:LINE
    of an output: the line of the modular file or of the parent that it was made from.

    \b
    Example:
      patchgen explain generated/llama/modeling_llama_loss.py:581
    """
    from patchgen.cli.explaining import explain_what

    return explain_what(target, package_root=package_root)
