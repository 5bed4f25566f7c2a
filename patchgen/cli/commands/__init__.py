"""The commands of the command line, one module for each; `outputs` has the five on outputs.

A command's docstring is its help below the line that `COMMANDS` has.  Its module is imported when
it is named: `--help`, completion and `check` do without the others.

What can be piped goes to stdout: code, diffs, reports.  Messages about the run go to stderr.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from inspect import cleandoc

import click
from click.shell_completion import CompletionItem

from patchgen.cli import terminal
from patchgen.cli.options import option

# In the groups and the order of `patchgen --help`.
GROUPS = {
    "Write": {
        "init": "Make DIR, by default the current folder, a patchgen project.",
        "new": "Write the modular file that puts parts into MODEL.",
        "convert": "Write the models of modular files, with a diff beside each.",
        "adopt": "Write the changes in a copied modeling file as a modular file.",
        "unpatch": "Write what a program patches as a modular file.",
        "rescue": "Port model code from transformers 4 to the installed release.",
    },
    "Keep true": {
        "check": "Fail unless the generated files are up to date.",
        "verify": "Compare outputs, losses and gradients with the parent's.",
        "rebase": "Make modular files fit another release of transformers.",
    },
    "Look": {
        "list": "Print how large each variant is.",
        "explain": "Explain a modular file, a line of an output, or an error code.",
        "page": "Show variants beside their parents, with their lines linked.",
    },
    "Use": {
        "export": "Write VARIANT into DIR, so that it loads without patchgen.",
        "train": "Train a variant, another model or a checkpoint.",
        "memory": "Predict the memory of a training step of MODEL.",
    },
    "Editor and shell": {
        "lsp": "Serve an editor: diagnostics, the parent's method, lenses.",
        "completion": "Print the script that completes what you type in SHELL.",
    },
}
COMMANDS: dict[str, str] = {}
for _commands in GROUPS.values():
    COMMANDS |= _commands
# Commands of earlier versions, with what does the same now; they still work.
OLD = {
    "diff": "check --diff",
    "lint": "check --lint",
    "survive": "rebase --releases all",
    "errors": "explain",
}
# Options that have the name `--out` now.
_OLD_OPTIONS = {"adopt": "--write", "rescue": "--write", "unpatch": "--write", "verify": "--report"}
# These run models, or serve: they have limits of their own.
RUN = ("lsp", "memory", "new", "rescue", "train", "unpatch", "verify")
_OUTPUTS = ("check", "convert", "diff", "lint", "list")


@cache
def load_command(name: str) -> click.Command:
    """The command `name`, one of `COMMANDS` or `OLD`."""
    module = import_module(f"{__name__}.{'outputs' if name in _OUTPUTS else name}")
    commands = (value for value in vars(module).values() if isinstance(value, click.Command))
    command = next(command for command in commands if command.name == name)
    first = COMMANDS[name] if name in COMMANDS else f"It is `patchgen {OLD[name]}` now."
    command.help = f"{first}\n\n{cleandoc(command.help or '')}"
    return command


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        is_known = cmd_name in COMMANDS or cmd_name in OLD
        return load_command(cmd_name) if is_known else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help) for name, help in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in sorted(COMMANDS) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *words = args
        if name in OLD:
            terminal.say(f"patchgen: `{name}` is `patchgen {OLD[name]}` now", err=True)
        elif name in _OLD_OPTIONS:
            args = [name, *_with_new_option(_OLD_OPTIONS[name], words)]
        elif name == "bench":
            raise click.UsageError("`bench` is `python -m benchmarks.bench` in a clone", ctx)
        elif name not in COMMANDS and not name.startswith("-"):
            from patchgen.syntax.errors import did_you_mean

            hint = did_you_mean(name, COMMANDS) or "patchgen --help lists the commands"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def _with_new_option(old: str, words: list[str]) -> list[str]:
    """`words` with `--out` for `old`, but for those of another program, behind `--`."""
    end = words.index("--") if "--" in words else len(words)
    own = [re.sub(rf"^{old}(?==|$)", "--out", word) for word in words[:end]]
    if own != words[:end]:
        terminal.say(f"patchgen: `{old}` is `--out` now", err=True)
    return [*own, *words[end:]]


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the releases that an output depends on; parents are read from that of transformers."""
    if not wanted or context.resilient_parsing:
        return
    from pathlib import Path

    from patchgen import __version__
    from patchgen.project.versions import release_of, tool_versions
    from patchgen.syntax.locate import make_environment

    terminal.say(f"patchgen {__version__}")
    for name, version in sorted(tool_versions().items()):
        terminal.say(f"{name} {version}")
    release = release_of("transformers", make_environment(Path.cwd()))
    terminal.say(f"transformers {release or 'not found'}")
    context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@option("--version", "Print versions.", callback=_print_version, expose_value=False, is_eager=True)
def patchgen() -> None:
    """Change the code of Hugging Face models, and keep the changes up to date.

    You write a change as a small Python file, a modular file: modular_llama_loss.py has subclasses
    of Llama's classes.  patchgen writes the whole model, modeling_llama_loss.py, and checks that
    the two agree.  The model is called a VARIANT, here llama_loss.  A PATH is a modular file or a
    folder of them; the default is what [tool.patchgen] in pyproject.toml names.

    \b
    Example:
      patchgen init
      patchgen new llama --with loss
      patchgen convert
      patchgen verify llama_loss
    """
