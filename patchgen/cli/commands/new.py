"""`patchgen new`: write the modular file that puts parts into a model of transformers."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen import disk
from patchgen.author.anatomy.module import open_module
from patchgen.author.declare.registry import OFFERED, PARTS, writers
from patchgen.author.declare.request import Answer, answer, names_of
from patchgen.author.declare.variant import Draft
from patchgen.author.modular_text import format_modular
from patchgen.author.published import find_published
from patchgen.cli import terminal
from patchgen.cli.options import complete_models, complete_parts, option, package_root
from patchgen.cli.report import table
from patchgen.cli.session import Request, open_authored
from patchgen.gallery import SOURCES
from patchgen.project.files import Project, modular_path
from patchgen.project.write import refuse_another, write_new
from patchgen.syntax.errors import did_you_mean

if TYPE_CHECKING:
    from patchgen.author.proof import Proof


@click.command(
    epilog="\b\nParts:\n" + "\n".join(f"  {part.name:15}{part.help}" for part in OFFERED)
)
@click.argument("model", required=False, shell_complete=complete_models)
@option(
    "--with parts PART,...", "The parts; default: list what fits.", shell_complete=complete_parts
)
@option("--name NAME", "The end of the file's name, modular_MODEL_NAME.py; default: the parts.")
@option("--from-gallery variant VARIANT", "Copy the modular file of this variant.")
@option("--dry-run", "Print the file; write nothing.")
@option("--no-proof", "Write it unverified: seconds less.")
@option("--force", "Write redundant parts too; replace an existing file.")
@package_root
def new(
    model: str | None,
    parts: str | None,
    name: str | None,
    variant: str | None,
    dry_run: bool,
    no_proof: bool,
    force: bool,
    package_root: str | None,
) -> int:
    """It is verified on a tiny model first.  MODEL is a modeling module of the installed
    transformers, such as roformer, or a checkpoint whose config.json is on this disk.  Code of it
    that patchgen does not understand is named with its line.  Without --with: which parts fit
    MODEL, and why others do not.

    \b
    Example:
      patchgen new roformer --with sdpa,loss --dry-run
      patchgen new --from-gallery llama_loss
    """
    project = open_authored(Request(package_root=package_root))
    if variant is not None:
        return _copy_from_gallery(project, variant, force)
    if model is None:
        what = "patchgen new MODEL lists the parts that fit it, such as patchgen new roformer; "
        raise click.UsageError(what + "patchgen new --from-gallery VARIANT copies one of ours")
    model = find_published(project.environment(), model, project.home)
    if parts is None:
        return _list_parts(project, model)
    reply = answer(project.environment(), model, names_of(parts), force=force)
    for part in reply.left_out:
        verdict = "is redundant" if part.redundant else "does not fit"
        terminal.say(f"{part.part} {verdict}: {part.why_left_out}", err=True)
    if not reply.parts:
        terminal.say("nothing is written; --force writes redundant parts too", err=True)
        return 1
    text = format_modular(reply.text, project.config.settings)
    if dry_run:
        terminal.write_code(text)
        return 0
    path = _path(project, reply, name)
    refuse_another(path, text, project.home, force, project.environment().display_path(path))
    if not no_proof and not _is_proved(reply.draft, force):
        return 1
    notes = []
    for part in reply.parts:
        notes += [f"note: {part.part}: {missing}" for missing in part.missing]
    _write(project, path, text, force, notes)
    return 0


def _list_parts(project: Project, model: str) -> int:
    """Print which parts fit the module `model`, and why others do not."""
    rows = []
    more: list[str] = []
    fitting = set()
    module = open_module(project.environment(), model)
    for name, writer in writers().items():
        contribution = writer(module)
        if contribution.redundant:
            whole = contribution.why_left_out
            # The first sentence, and behind the table all of them.
            sentence = re.split(r"[.:]\s", whole, maxsplit=1)[0]
            rows.append((name, "redundant", sentence))
            if sentence != whole:
                more.append(f"\n{name}: {whole}\n")
        elif contribution.fits:
            rows.append((name, "fits", PARTS[name].help))
            fitting.add(name)
        else:
            rows.append((name, "does not fit", contribution.why_left_out))
    for part in OFFERED:
        if chosen := [each for each in part.sum_of if each in fitting]:
            rows.append((part.name, "fits", " and ".join(chosen)))
    terminal.write(table(("part", "", ""), rows) + "".join(more))
    for name, path in _gallery().items():
        if path.parent.name == module.alias:
            terminal.write(f"{name} is in the gallery: patchgen new --from-gallery {name}\n")
    return 0


def _gallery() -> dict[str, Path]:
    """The modular file of each variant of the gallery."""
    paths = sorted(SOURCES.rglob("modular_*.py"))
    return {path.stem.removeprefix("modular_"): path for path in paths}


def _copy_from_gallery(project: Project, name: str, force: bool) -> int:
    """Copy the modular file of a variant of the gallery into the project."""
    paths = _gallery()
    if name not in paths:
        hint = did_you_mean(name, paths) or f"there are: {', '.join(paths)}"
        raise click.UsageError(f"the gallery has no {name}; {hint}")
    path = paths[name]
    sources = project.config.sources or ("modular",)
    folder = project.config.home / sources[0]
    copy = folder / path.relative_to(SOURCES)
    _write(project, copy, disk.text_of(path), force, [])
    return 0


def _write(project: Project, path: Path, text: str, force: bool, notes: list[str]) -> None:
    shown = project.environment().display_path(path)
    write_new(path, text, project.home, force, shown)
    terminal.say(f"wrote {shown}")
    for note in notes:
        terminal.say(note, err=True)
    if not project.config.sources:
        hint = 'or set sources = ["modular"] in [tool.patchgen] of pyproject.toml'
        what = f"this project names no sources: run patchgen convert {shown}, {hint}"
        terminal.say(f"note: {what}", err=True)


def _is_proved(draft: Draft, force: bool) -> bool:
    """Whether nothing speaks against the draft; says what was verified, or why it was not."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            terminal.say(f"not verified: that needs {package}", err=True)
            return True
    from patchgen.author.proof import prove

    with disk.scratch() as home:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            proof = prove(draft, home)
        if proof.status == "verified":
            heads = " and ".join(proof.heads)
            seen = ", ".join(proof.seen)
            terminal.say(f"verified in {heads}: the same as the parent; seen: {seen}", err=True)
            if proof.unreached:
                parts = " and ".join(proof.unreached)
                terminal.say(
                    f"not verified: no class that was tried runs layers of {parts}", err=True
                )
            return _is_worth_it(draft, proof, force)
    if proof.status == "failed":
        terminal.say(f"nothing is written, since it is wrong here: {proof.why}", err=True)
        terminal.say("hint: --no-proof writes it all the same; please report this", err=True)
        return False
    terminal.say(f"not verified: the model {proof.why}", err=True)
    return True


def _is_worth_it(draft: Draft, proof: Proof, force: bool) -> bool:
    """Whether the draft saves enough of a step, by count, or nobody can tell; says how much."""
    from patchgen.training.gain import LEAST, count_a_gain

    steps = list(chain.from_iterable(PARTS[part].counted for part in draft.parts))
    if not steps:  # it is for something else
        return True
    ours, theirs = proof.classes(draft.parts)
    try:
        step, gain = count_a_gain(ours, theirs, dict.fromkeys(steps))
    except ValueError as error:
        terminal.say(f"not counted: {error}", err=True)
        return True
    terminal.say(f"counted with the default sizes, {step}: {gain}", err=True)
    if gain.is_worth_it or force:
        return True
    terminal.say(f"nothing is written: that saves less than {LEAST:.0%}", err=True)
    terminal.say("hint: --force writes it all the same", err=True)
    return False


def _path(project: Project, reply: Answer, name: str | None) -> Path:
    suffix = name or reply.ending
    if not suffix.isidentifier():
        raise click.UsageError(f"--name {suffix}: a module's name can have no such part")
    return modular_path(project.config, reply.module.alias, suffix)
