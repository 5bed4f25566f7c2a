"""`patchgen unpatch`."""

from __future__ import annotations

import click

from patchgen.cli import terminal
from patchgen.cli.options import NEW_FOLDER, needs_models, option, text_or_json
from patchgen.cli.report import print_json
from patchgen.cli.session import Request, open_project
from patchgen.unpatching.unpatch import unpatch_command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", metavar="-- python train.py ...", nargs=-1, required=True)
@option("--out folder DIR", "Write the modular file into DIR.", type=NEW_FOLDER)
@option("--no-verify", "Do not compare with the patched model.")
@option("--force", "Write even what does not convert; replace a file.")
@text_or_json
@needs_models()
def unpatch(
    command: tuple[str, ...], folder: str | None, no_verify: bool, force: bool, form: str
) -> int:
    """Runs YOUR program in a process of its own, until its model first runs forward.  Then patchgen
    compares the model's classes and functions with the files of transformers, and writes what
    differs.  Exit code 0: all that has an effect is written, and computes the same; else 1.

    \b
    Example:
      patchgen unpatch --out modular/llama -- python train.py --lr 1e-4
    """
    settings = open_project(Request()).config.settings
    report = unpatch_command(command, folder, settings, verify=not no_verify, force=force)
    exit_code = int(not report.is_complete)
    if form == "json":
        print_json("unpatch", report.data())
        return exit_code
    if folder is None:
        for model in report.models:
            terminal.write_code(model.text)
    terminal.write(report.text(), err=folder is None)
    for model in report.models:
        if folder is not None and (model.flat or force):
            terminal.say(f"wrote {folder}/{model.name}")
    return exit_code
