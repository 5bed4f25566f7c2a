"""The commands of the command line: names, options and help texts, one module for each.

A command takes its options, calls the module of `patchgen.cli` that does the work, and returns the
exit code.  Those modules are imported inside the commands, because neither `--help` nor completion
in a shell needs them.

What can be piped goes to stdout: code, diffs, reports.  Messages about the run go to stderr.
"""

from __future__ import annotations

import click

from patchgen.cli.commands.adopt import adopt
from patchgen.cli.commands.bench import bench
from patchgen.cli.commands.completion import completion
from patchgen.cli.commands.coverage import coverage
from patchgen.cli.commands.errors import errors
from patchgen.cli.commands.explain import explain
from patchgen.cli.commands.export import export
from patchgen.cli.commands.init import init
from patchgen.cli.commands.memory import memory
from patchgen.cli.commands.new import new
from patchgen.cli.commands.outputs import check, convert, diff, lint, list_variants
from patchgen.cli.commands.page import page
from patchgen.cli.commands.rebase import rebase
from patchgen.cli.commands.retire import retire
from patchgen.cli.commands.survive import survive
from patchgen.cli.commands.train import train
from patchgen.cli.commands.verify import verify


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from patchgen.cli.about import version_text

        click.echo(version_text())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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


for _command in (
    adopt,
    bench,
    check,
    completion,
    convert,
    coverage,
    diff,
    errors,
    explain,
    export,
    init,
    lint,
    list_variants,
    memory,
    new,
    page,
    rebase,
    retire,
    survive,
    train,
    verify,
):
    patchgen.add_command(_command)
