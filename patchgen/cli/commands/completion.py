"""`patchgen completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from patchgen.cli import terminal


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """\b
    bash: add to ~/.bashrc      eval "$(patchgen completion bash)"
    zsh:  add to ~/.zshrc       eval "$(patchgen completion zsh)"
    fish: patchgen completion fish > ~/.config/fish/completions/patchgen.fish

    \b
    Example:
      patchgen completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None, f"click has no completion for {shell}"
    script = kind(context.find_root().command, {}, "patchgen", "_PATCHGEN_COMPLETE")
    terminal.write_code(f"{script.source()}\n")
    return 0
