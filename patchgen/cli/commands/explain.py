"""`patchgen explain`: how a modular file is read, where a line comes from, what a code means."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from patchgen.cli import terminal
from patchgen.cli.commands.errors import about_code
from patchgen.cli.options import complete_targets, package_root
from patchgen.cli.origins import find_origin, find_source, map_traceback
from patchgen.cli.report import plural
from patchgen.cli.session import Request, find_variants, open_project
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.project.files import MODULAR, Project
from patchgen.project.lock import load_records
from patchgen.syntax.text import read_bytes, read_source


@click.command()
@click.argument("target", metavar="VARIANT|FILE[:LINE]|PGnnn|-", shell_complete=complete_targets)
@package_root
def explain(target: str, package_root: str | None) -> int:
    """For a VARIANT or its modular FILE: its plan, and the classes after each pass that changes
    them.  For FILE:LINE of an output: the line of the modular file or of the parent that it was
    made from.  For an error code: what it means and what to do; PG1 lists those that start with it.
    For -: the traceback on stdin, with the line that each line of an output was made from.

    \b
    Example:
      patchgen explain generated/llama/modeling_llama_loss.py:602
      patchgen explain PG501
    """
    if re.fullmatch(r"PG\d*", target, re.IGNORECASE):
        terminal.write(about_code(target))
        return 0
    if target == "-":
        terminal.write(map_traceback(sys.stdin.read()))
        return 0
    match = re.fullmatch(r"(.+?):(\d+)(?::\d+)?", target)
    name, line = (match[1], int(match[2])) if match else (target, 0)
    paths = (name,) if Path(name).exists() else ()
    project = open_project(Request(paths, package_root=package_root))
    (path,) = find_variants(project, [name])
    if not path.is_file():
        raise click.UsageError(f"{name} is a folder")
    count = len(read_bytes(path, name).splitlines())
    if match and not 1 <= line <= count:
        raise click.UsageError(f"{name} has no line {line}: it has {plural(count, 'line')}")
    if MODULAR.fullmatch(path.name):
        return _explain_plan(project, path)
    return _explain_lines(project, path.resolve(), line)


def _explain_plan(project: Project, path: Path) -> int:
    """Print the plan, the text of each class after each pass, and the blocks of each output."""
    from patchgen.compiler.flatten import link_file

    steps = link_file(path, project.environment(), project.config.settings)
    sections = {"plan": _outline_plan(steps.builder.plan), **steps.texts}
    for module in steps.modules:
        blocks = ""
        for block in module.blocks:
            paths = dict.fromkeys(rewritten.source.path for rewritten in block.rewritten)
            blocks += f"{block.kind:7} {block.name or '-':40} {' + '.join(paths)}\n"
        sections[f"{module.kind}: the blocks in order"] = blocks
    before: dict[str, str] = {}
    for title, text in sections.items():
        name, is_pass, _ = title.partition(": after ")
        # A pass that changes nothing is not shown.
        if not is_pass or before.get(name) != text:
            terminal.write(f"== {title}\n{text.rstrip()}\n\n")
        before[name] = text
    return 0


def _outline_plan(plan: ModulePlan) -> str:
    lines = [f"{kind} follows {module}" for kind, module in plan.bases.items()]
    for module, prefix in plan.prefixes.items():
        lines.append(f"{module}: {prefix or 'names kept'}")
    for declaration in plan.declarations:
        name = declaration.symbol.name
        bases = ", ".join(map(str, declaration.rest))
        if declaration.why:
            lines.append(f"class {name} stays a subclass of {bases}: {declaration.why}")
        else:
            lines.append(f"class {name} = {' + '.join(map(str, declaration.chain))}; bases {bases}")
    return "\n".join(lines)


def _explain_lines(project: Project, path: Path, line: int) -> int:
    record = load_records(project).get(path)
    if record is None:
        what = "is neither a modular file nor a recorded output"
        raise click.UsageError(f"{project.display_path(path)} {what}")
    if not line:
        raise click.UsageError(f"name a line of it, such as {record.output}:9")
    origin = find_origin(project, record, path, line)
    if origin is None:
        terminal.say(f"{record.output}:{line}: a blank line, or written by patchgen itself")
        return 0
    terminal.say(f"{record.output}:{line} comes from {origin}")
    if source := find_source(project, origin.path):
        lines = read_source(source, allow_bidi=True).lines
        terminal.say(f"    {lines[origin.line - 1].rstrip()}")
    return 0
