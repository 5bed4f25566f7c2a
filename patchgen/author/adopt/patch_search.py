"""Find the model and the release that a patch is for, and what it makes of the model's file."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.classes import Doubts
from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.adopt.parents import Candidate, find_file
from patchgen.author.adopt.patch_names import ANOTHER_RELEASE, plain_texts
from patchgen.author.adopt.patch_targets import find_target
from patchgen.author.adopt.patch_values import Patch
from patchgen.author.adopt.patched import PatchedFile
from patchgen.author.adopt.patches import read_patch
from patchgen.author.adopt.proof import flatten_text
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import File, read_file
from patchgen.compiler.emit.format import format_modular, format_texts
from patchgen.compiler.settings import Settings
from patchgen.facts.decorators import RULES, Rule
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source, read_source


@dataclass(frozen=True)
class Patched:
    """A patched model beside its parent, and what has no effect there."""

    candidate: Candidate
    notes: tuple[str, ...]


def find_patched(
    path: Path,
    display_path: str,
    apply: str | None,
    releases: Sequence[Release],
    model: str | None,
    settings: Settings,
) -> Patched | None:
    """What the patch in a file makes of its model, in the release that fits it best.

    None for a file that patches nothing.  Raises PatchgenError PG810 for what only the running
    program knows and for what no release has, and PG808 for a patch of several models.
    """
    found: list[tuple[Patched, Patch]] = []
    problems: list[tuple[Problem, ...]] = []
    for release in reversed(releases):
        patch = read_patch(path, display_path, apply, release.root())
        if patch is None:
            return None
        try:
            found.append((_patched(patch, release, model, settings), patch))
        except PatchgenError as error:
            problems.append(problems_of(error))
    found.sort(key=lambda pair: (len(pair[0].notes), pair[0].candidate.rank))
    for one, patch in found:
        try:
            return _fitting(one, patch, settings)
        except PatchgenError as error:
            problems.append(problems_of(error))
    raise Refusals(sorted(problems, key=len)[0])


def _patched(patch: Patch, release: Release, model: str | None, settings: Settings) -> Patched:
    root, at = release.root(), Location(patch.file.source.path)
    paths = {one.path for one in patch.assignments} | {path for path, _ in patch.problems if path}
    targets = {path: target for path in paths if (target := find_target(path, root)) is not None}
    models = {target.module: target.path for target in targets.values()}
    if model is not None:
        models = dict([find_file(release, model)])
    problems = [
        problem
        for path, problem in patch.problems
        if path not in targets or targets[path].module in models
    ]
    problems += [
        Problem(one.at, "PG810", f"changes {one.path}, which no modeling file has", ANOTHER_RELEASE)
        for one in patch.assignments
        if one.path not in targets or ".modeling_" not in targets[one.path].module
    ]
    if problems:
        # One thing that is not known may decide about a dozen assignments.
        raise Refusals({problem.at: problem for problem in problems[::-1]}.values())
    if len(models) > 1:
        names = " and ".join(sorted(name.rpartition(".modeling_")[2] for name in models))
        what = f"patches {names}: each is a file of its own"
        raise PatchgenError("PG808", at, what, "say which one with --parent")
    ((module, file),) = models.items()
    parent = read_file(read_source(file, module, "/".join(file.parts[-4:])))
    made = PatchedFile(patch, parent, module, root)
    text = made.text()
    if made.problems:
        raise Refusals(made.problems)
    fork = _read(format_texts({"fork.py": text}, settings)["fork.py"], patch)
    forked = pair_with_parent(parent, fork, module, root=root)
    dead = [f"{at}: {what}" for at, what in made.dead]
    return Patched(Candidate(forked, release), (*dead, *made.notes, *made.other_releases()))


def _read(text: str, patch: Patch) -> File:
    return read_file(make_source(text, patch.file.source.path))


def _fitting(one: Patched, patch: Patch, settings: Settings) -> Patched:
    """The patched model without what convert leaves out, as the patch makes it of no use.

    That is functions that only replaced code has called, and decorators by which a kernel would
    take the place of a replaced `forward`.  Raises PatchgenError PG810 for calls that do not fit
    the release.
    """
    forked, release = one.candidate.forked, one.candidate.release
    text = format_modular(declare(forked, Doubts()).text, settings)
    output, problems = flatten_text(text, "modular_patch.py", release.root(), settings)
    calls = [problem for problem in problems if problem.code in ("PG406", "PG412")]
    if calls:
        raise Refusals([replace(one, at=_place(one, patch), hint=ANOTHER_RELEASE) for one in calls])
    there = read_file(make_source(output, "output.py")).definitions
    fork, parent, notes = forked.fork, forked.parent, [*one.notes]
    read = {reference.name for reference in fork.plain_reads}
    unused: list[ast.stmt | ast.expr] = []
    for name, definition in fork.definitions.items() if output else ():
        if name in parent.definitions and name not in {*there, *read}:
            unused.append(definition.node)
        elif name in there and isinstance(definition.node, ast.ClassDef):
            kept = plain_texts(getattr(there[name].node, "decorator_list", ()))
            for decorator in definition.node.decorator_list:
                short = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
                rule = RULES.get(short, (None, ""))[0]
                if rule in (Rule.KERNEL, Rule.EXPERTS) and plain_text(decorator) not in kept:
                    unused.append(decorator)
                    notes.append(f"@{short} of {name} is left out: its forward is replaced")
    lines = list(fork.source.lines)
    for node in sorted(unused, key=lambda node: -node.lineno):
        first = first_line(node) if isinstance(node, ast.stmt) else node.lineno
        del lines[first - 1 : node.end_lineno]
    forked = pair_with_parent(parent, _read("".join(lines), patch), forked.module, root=forked.root)
    return Patched(Candidate(forked, release), tuple(notes))


def _place(problem: Problem, patch: Patch) -> Location:
    """Where a problem of the declaration stands in the patch file."""
    name = re.match(r"self\.(\w+)", problem.what)
    for node in ast.walk(patch.file.tree) if name else ():
        if isinstance(node, ast.Attribute) and name and ast.unparse(node) == name[0]:
            return patch.file.source.at_node(node)
    return problem.at
