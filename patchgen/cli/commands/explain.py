"""`patchgen explain`: how a modular file is read, where a line comes from, what a code means."""

from __future__ import annotations

import re
from pathlib import Path

import click

from patchgen.cli import terminal
from patchgen.cli.commands.errors import about_code
from patchgen.cli.options import complete_targets, package_root
from patchgen.cli.report import plural
from patchgen.cli.session import Request, find_variants, open_project
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.project.files import MODULAR, Project, make_modular
from patchgen.project.lock import Record, load_records
from patchgen.project.outcome import digest_of, digest_of_file
from patchgen.syntax.errors import Location, Refusals
from patchgen.syntax.text import read_bytes, read_source


@click.command()
@click.argument("target", metavar="VARIANT|FILE[:LINE]|PGnnn", shell_complete=complete_targets)
@package_root
def explain(target: str, package_root: str | None) -> int:
    """For a VARIANT or its modular FILE: its plan, and the classes after each pass that changes
    them.  For FILE:LINE of an output: the line of the modular file or of the parent that it was
    made from.  For an error code: what it means and what to do; PG1 lists those that start with it.

    \b
    Example:
      patchgen explain generated/llama/modeling_llama_loss.py:602
      patchgen explain PG501
    """
    if re.fullmatch(r"PG\d*", target, re.IGNORECASE):
        terminal.write(about_code(target))
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
    sections = {"plan": _outline_plan(steps.builder.naming.plan), **steps.texts}
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
    origin = _find_origin(project, record, path, line)
    if origin is None:
        terminal.say(f"{record.output}:{line}: a blank line, or written by patchgen itself")
        return 0
    terminal.say(f"{record.output}:{line} comes from {origin}")
    for root in project.environment().roots:
        if (source := root / origin.path).is_file():
            lines = read_source(source, allow_bidi=True).lines
            terminal.say(f"    {lines[origin.line - 1].rstrip()}")
            break
    return 0


def _find_origin(project: Project, record: Record, path: Path, line: int) -> Location | None:
    """Where a line of the output at `path` comes from; its modular file is read again."""
    from patchgen.compiler.flatten import flatten

    modular = make_modular(project, project.home / record.modular)
    flattened = flatten(modular.path, project.environment(), project.config.settings)
    if flattened.problems:
        raise Refusals(flattened.problems)
    for file in flattened.files:
        if (file.name, digest_of(file.text)) == (path.name, digest_of_file(path)):
            for origin in file.lines:
                if origin.first <= line <= origin.last:
                    return Location(origin.path, origin.line + line - origin.first, 1)
            return None
    why = "it was edited by hand"
    if digest_of_file(path) == record.digest:
        why = f"{record.modular} does not give it now"
    raise click.ClickException(f"{record.output}: {why}; `patchgen convert` writes it anew")
