"""The fork that a patch stands for: the parent's file with what is assigned put in its place.

patch file                                fork
def forward(self, x):                     class LlamaMLP(nn.Module):
    return helper(x)                          def forward(self, x):
LlamaMLP.forward = forward                        return helper(x)

`find_patched` makes it of the release that fits the patch best.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from patchgen.author.adopt.classes import Doubts
from patchgen.author.adopt.fit import lacking_imports
from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.adopt.parents import Candidate, find_file
from patchgen.author.adopt.patch_file import Assignment, Patch, read_patch
from patchgen.author.adopt.patch_names import (
    ANOTHER_RELEASE,
    PatchNames,
    find_target,
    reads_of,
)
from patchgen.author.adopt.proof import flatten_text
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import Definition, File, absolute_module, defined_names, read_file
from patchgen.author.modular_text import format_modular
from patchgen.compiler.settings import Settings
from patchgen.facts.decorators import FIELD_DECORATORS, RULES, Rule
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.reads import Reference, is_private
from patchgen.syntax.same import Function
from patchgen.syntax.text import make_source, read_source

_Edit = tuple[int, int, list[str]]  # the lines from the first to the last, and what they become


Patched = tuple[Candidate, tuple[str, ...]]  # a model beside its parent, and notes


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
    patch = read_patch(path, display_path, apply)
    if patch is None:
        return None
    matches: list[Patched] = []
    errors: list[PatchgenError] = []
    for release in reversed(releases):
        try:
            matches.append(_patched(patch, release, model, settings))
        except PatchgenError as error:
            errors.append(error)
    if not matches:
        raise errors[0]
    candidate, notes = min(matches, key=lambda match: (len(match[1]), match[0].rank))
    return _without_unused(candidate, settings), notes


def _patched(patch: Patch, release: Release, model: str | None, settings: Settings) -> Patched:
    root, at = release.root(), Location(patch.file.source.path)
    modules = {one.path: find_target(one.path, root)[0] for one in patch.assignments}
    for one in patch.assignments:
        if ".modeling_" not in modules[one.path]:
            what = f"changes {one.path}, which no modeling file has"
            raise PatchgenError("PG810", one.at, what, ANOTHER_RELEASE)
    names = sorted(set(modules.values())) if model is None else [find_file(release, model)[0]]
    if len(names) > 1:
        models = " and ".join(name.rpartition(".modeling_")[2] for name in names)
        what = f"patches {models}: each is a file of its own"
        raise PatchgenError("PG808", at, what, "say which one with --parent")
    for path in lacking_imports(patch.file, root):
        what, last = f"imports {path}, which this release does not have", path.rpartition(".")[2]
        node = next(node for node, one in patch.file.imports.values() if one.name == last)
        raise PatchgenError("PG810", patch.file.source.at_node(node), what, ANOTHER_RELEASE)
    file = root.joinpath(*names[0].split(".")).with_suffix(".py")
    parent = read_file(read_source(file, names[0], "/".join(file.parts[-4:])))
    fork = PatchNames(patch, parent, names[0], root)
    text = format_texts({"fork.py": _fork_text(fork)}, settings)["fork.py"]
    forked = pair_with_parent(parent, read_file(make_source(text, at.path)), names[0], root=root)
    return Candidate(forked, release), (*fork.notes, *fork.unset())


def _without_unused(candidate: Candidate, settings: Settings) -> Candidate:
    """The patched model without functions that only replaced code called, as convert has it."""
    forked, release = candidate.forked, candidate.release
    text = format_modular(declare(forked, Doubts()).text, settings)
    output, _ = flatten_text(text, "modular_patch.py", release.root(), settings)
    fork, there = forked.fork, read_file(make_source(output, "output.py")).definitions
    has = {*there, *(read.name for read in fork.plain_reads)}
    lines = list(fork.source.lines)
    for name, definition in [*fork.definitions.items()][::-1] if output else ():
        if name in forked.parent.definitions and name not in has:
            del lines[first_line(definition.node) - 1 : definition.node.end_lineno]
    fork = read_file(make_source("".join(lines), fork.source.path))
    forked = pair_with_parent(forked.parent, fork, forked.module, root=forked.root)
    return Candidate(forked, release)


# The text of the fork.


def _fork_text(names: PatchNames) -> str:
    """The fork, not yet formatted."""
    parent, edits = names.parent, list[_Edit]()
    late = [one for one in parent.plain_reads if not one.eager and one.name in names.renamed]
    lines = _renamed(names, parent, [(one, (names.renamed[one.name], 0)) for one in late])
    for node in parent.tree.body:
        if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
            # In a fork, this would be a module of its own package.
            begin = f"from {absolute_module(node, names.module)}"
            lines[node.lineno - 1] = re.sub(r"^from\s+[.\w]+", begin, lines[node.lineno - 1])
    start = next(n for n, line in enumerate(lines) if line and line[0] != "#")
    lines[:start] = [""] * start
    for (name, attr), one in names.assigned.items():
        edits += _edit_class(names, name, attr, one) if attr else ()
    edits.append(_added(names))
    for first, last, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        lines[first - 1 : last] = text
    header = itertools.takewhile(lambda line: line.startswith("#"), names.file.source.lines)
    return "".join(header) + "\n".join(["", *lines]) + "\n"


def _renamed(
    names: PatchNames, file: File, reads: Iterable[tuple[Reference, tuple[str, int]]]
) -> list[str]:
    """The lines of a file with other names for what is read, each with attributes it takes in."""
    raw = [line.rstrip("\n").encode() for line in file.source.lines]
    for read, (called, taken) in sorted(reads, key=lambda pair: pair[0].position, reverse=True):
        line, end = raw[read.line - 1], (read.line, read.column + len(read.name.encode()))
        end = read.ends[taken - 1] if taken else end
        if end[0] != read.line or called != read.name and called in read.hidden:
            at = file.source.at(read.line, read.column)
            names.refuse(at, f"cannot become {called} on this line", "write it as one other name")
        if called != read.name or taken:
            raw[read.line - 1] = line[: read.column] + called.encode() + line[end[1] :]
    return [line.decode() for line in raw]


def _edit_class(names: PatchNames, name: str, attr: str, one: Assignment) -> Iterator[_Edit]:
    """Put a member into a class; what is put on instances, those of subclasses have as well."""
    definition, method = names.parent.definitions[name], names.methods.get((name, attr))
    for decorator in getattr(definition.node, "decorator_list", ()):
        word = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
        if word in FIELD_DECORATORS:
            names.refuse(one.at, f"changes {name}, whose fields are made before", "write a class")
        if attr == "forward" and RULES.get(word, (None,))[0] in (Rule.KERNEL, Rule.EXPERTS):
            names.notes.append(f"@{word} of {name} is left out: its forward is replaced")
            yield decorator.lineno, decorator.end_lineno or 0, []
    lines = _written(names, [method], attr, 4) if method else [f"    {attr} = {names.text_of(one)}"]
    if attr in definition.members:
        yield from _edits_of_member(definition, attr, lines)
    else:
        end = definition.node.end_lineno or 0
        yield end + 1, end, ["", *lines]
    for other in names.parent.classes if one.to_instances else ():
        below = names.parent.definitions[other]
        is_below = other != name and definition in names.lineage(other)
        if is_below and attr in below.members and (other, attr) not in names.assigned:
            yield from _edits_of_member(below, attr, [])


def _edits_of_member(definition: Definition, attr: str, lines: list[str]) -> Iterator[_Edit]:
    """Other lines for a member of a class, which may consist of several statements."""
    left = lines or ([] if len(definition.members) > 1 else ["    pass"])
    for node in definition.members[attr].nodes:
        yield first_line(node), node.end_lineno or 0, left
        left = []


def _added(names: PatchNames) -> _Edit:
    """The imports and the pieces; in which order a fork defines them says nothing."""
    start = min(first_line(one.nodes[0]) for one in names.parent.definitions.values())
    lines: list[str] = []
    written: set[ast.AST] = set()
    for name, nodes in sorted(names.pieces.items(), key=lambda item: item[1][0].lineno):
        if not written & {*nodes} and not names.parents_path(names.names[name]):
            lines += ["", *_written(names, nodes, names.names[name], 0), ""]
            written |= {*nodes}
    return start, start - 1, ["\n".join(names.imports.values()), *lines]


def _written(names: PatchNames, nodes: Sequence[ast.stmt], name: str, indent: int) -> list[str]:
    """The lines of a piece in the names of the fork, `name` being what it is called there."""
    file, found = names.file, list[str]()
    lines = _renamed(names, file, [(read, names.name_of(read)) for read in reads_of(nodes)])
    for node in nodes:
        _check(names, node, indent)
        number = node.lineno - 1
        bound = (*defined_names(node), *(one for one in file.guarded if file.guarded[one] is node))
        if name not in bound:
            if not isinstance(node, Function | ast.ClassDef | ast.Assign | ast.AnnAssign):
                what = f"binds what the model's file calls {name.removesuffix('_patched')}"
                names.refuse(file.source.at_node(node), what, "give it another name")
            pattern = r"^(class\s+|(?:async\s+)?def\s+|)\w+"
            lines[number] = re.sub(pattern, rf"\g<1>{name}", lines[number], count=1)
        first = first_line(node)
        while first > 2 and lines[first - 2].startswith("#"):
            first -= 1
        for number in range(first, (node.end_lineno or 0) + 1):
            margin = 0 if number in file.inside_strings else indent
            found.append(" " * margin + lines[number - 1] if lines[number - 1] else "")
    return found


def _check(names: PatchNames, node: ast.stmt, indent: int) -> None:
    """Refuse what would mean another thing in the model's file."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(attr=attr) if indent and is_private(attr):
                what = f"reads {attr}, which is another name in a class"
            case ast.Global(names=listed):
                what = f"changes {', '.join(listed)} while the model runs"
            case ast.ImportFrom(module=module) if module == names.module:
                what = "imports from the patched module while the model runs"
            case _:
                continue
        names.refuse(names.file.source.at_node(inner), what, "change that line")
