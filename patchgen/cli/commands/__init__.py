"""The commands of the command line: names, options and help texts, one module for each.

A command takes its options, calls the module of `patchgen.cli` that does the work, and returns the
exit code.  Those modules are imported inside the commands, because neither `--help` nor completion
in a shell needs them.

What can be piped goes to stdout: code, diffs, reports.  Messages about the run go to stderr.
"""

from __future__ import annotations

from importlib import import_module

import click

# The module of each command.
COMMANDS = {
    "adopt": "adopt",
    "bench": "bench",
    "check": "outputs",
    "completion": "completion",
    "convert": "outputs",
    "diff": "outputs",
    "errors": "errors",
    "explain": "explain",
    "export": "export",
    "init": "init",
    "lint": "outputs",
    "list": "outputs",
    "lsp": "lsp",
    "memory": "memory",
    "new": "new",
    "page": "page",
    "rebase": "rebase",
    "rescue": "rescue",
    "survive": "survive",
    "train": "train",
    "unpatch": "unpatch",
    "verify": "verify",
}


def load_command(name: str) -> click.Command:
    """The command `name`, one of `COMMANDS`."""
    module = import_module(f"{__name__}.{COMMANDS[name]}")
    commands = (value for value in vars(module).values() if isinstance(value, click.Command))
    return next(command for command in commands if command.name == name)


class _Commands(click.Group):
    """Imports the module of a command when somebody names it: `check` does without the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from patchgen.syntax.errors import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or "patchgen --help lists the commands"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from patchgen.cli.about import version_text

        click.echo(version_text())
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    callback=_print_version,
    expose_value=False,
    is_eager=True,
    help="Print versions.",
)
def patchgen() -> None:
    """Change the code of Hugging Face models, and keep the changes up to date.

    You write a change as a small Python file, a modular file: modular_llama_loss.py has subclasses
    of Llama's classes.  patchgen writes the whole model, modeling_llama_loss.py, and checks that
    the two agree.  The model is called a VARIANT, here llama_loss.  PATHS are modular files or
    folders of them; the default is what [tool.patchgen] in pyproject.toml names.

    \b
    Example:
      patchgen init
      patchgen new llama --with loss
      patchgen convert
      patchgen verify llama_loss
    """
