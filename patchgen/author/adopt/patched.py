"""The fork that a patch stands for: the parent's file with what is assigned put in its place.

patch file                                fork
def forward(self, x):                     class LlamaMLP(nn.Module):
    return helper(x)                          def forward(self, x):
LlamaMLP.forward = forward                        return helper(x)

What the assigned code reads of the patch file comes along.  Each name means what it means to the
patch: a helper that is called like another definition of the parent gets another name.  What code
of the parent reads while its module is imported, it has read before the patch runs.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen.author.adopt.classes import Doubts
from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.adopt.parents import Candidate, find_file
from patchgen.author.adopt.patches import (
    Assignment,
    Defined,
    Imported,
    Literal,
    Patch,
    Unknown,
    Value,
    find_target,
    read_patch,
)
from patchgen.author.adopt.proof import flatten_text
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import Definition, File, read_file
from patchgen.compiler.emit.format import format_texts
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.reads import Reference, is_private
from patchgen.syntax.same import Function, plain_text
from patchgen.syntax.scopes import references
from patchgen.syntax.text import make_source, read_source

_ANOTHER_RELEASE = "name the release that the patch was written for: --release X"
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


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
) -> list[Patched]:
    """What the patch in a file makes of its model, in the release that fits it best first.

    Nothing for a file that patches nothing.  Raises PatchgenError PG810 for what only the running
    program knows and for what no release has, and PG808 for a patch of several models.
    """
    found, problems = [], []
    for release in reversed(releases):
        patch = read_patch(path, display_path, apply, release.root())
        if patch is None:
            return []
        try:
            found.append(_patched(patch, release, model, settings))
        except PatchgenError as error:
            problems.append(problems_of(error))
    found.sort(key=lambda one: (len(one.notes), one.candidate.rank))
    for number, one in enumerate(found):
        misfits = _misfits(one, settings)
        if not misfits:
            return found[number:]
        problems.append(misfits)
    raise Refusals(min(problems, key=lambda one: len(one)))


def _misfits(one: Patched, settings: Settings) -> tuple[Problem, ...]:
    """What says that the patch was written for another release: calls that no longer fit."""
    text = declare(one.candidate.forked, Doubts()).text
    root = one.candidate.release.root()
    _, problems = flatten_text(text, "modular_patch.py", root, settings)
    return tuple(
        replace(problem, hint=_ANOTHER_RELEASE)
        for problem in problems
        if problem.code in ("PG406", "PG412")
    )


def _patched(patch: Patch, release: Release, model: str | None, settings: Settings) -> Patched:
    root = release.root()
    paths = {one.path for one in patch.assignments} | {path for path, _ in patch.problems if path}
    targets = {path: target for path in paths if (target := find_target(path, root)) is not None}
    models = {target.module: target.path for target in targets.values()}
    if model is not None:
        name, file = find_file(release, model)
        models = {name: file}
    mine = [
        problem
        for path, problem in patch.problems
        if not path or path not in targets or targets[path].module in models
    ]
    elsewhere = [
        Problem(
            one.at, "PG810", f"changes {one.path}, which no modeling file has", _ANOTHER_RELEASE
        )
        for one in patch.assignments
        if one.path not in targets or ".modeling_" not in targets[one.path].module
    ]
    if mine or elsewhere:
        raise Refusals([*mine, *elsewhere])
    if len(models) > 1:
        names = " and ".join(sorted(name.rpartition(".modeling_")[2] for name in models))
        what = f"patches {names}: each is a file of its own"
        at = Location(patch.file.source.path)
        raise PatchgenError("PG808", at, what, "say which one with --parent")
    ((module, file),) = models.items()
    parent = read_file(read_source(file, module, "/".join(file.parts[-4:])))
    made = _Fork(patch, parent, module, root)
    text = made.text()
    if made.problems:
        raise Refusals(made.problems)
    text = format_texts({"fork.py": text}, settings)["fork.py"]
    fork = _without_unread(read_file(make_source(text, patch.file.source.path)), parent)
    forked = pair_with_parent(parent, fork, module, root=root)
    return Patched(Candidate(forked, release), tuple(made.notes))


@dataclass(frozen=True)
class _Needed:
    """A piece of the patch file that the fork needs, below a module's name or assigned."""

    nodes: tuple[ast.stmt | ast.Lambda, ...]
    local: Mapping[str, Value]

    @cached_property
    def reads(self) -> tuple[Reference, ...]:
        nodes = [ast.Expr(one) if isinstance(one, ast.Lambda) else one for one in self.nodes]
        return tuple(one for one in references(nodes) if not one.quoted)


class _Fork:
    """Puts the assignments into the lines of the parent's file."""

    def __init__(self, patch: Patch, parent: File, module: str, root: Path) -> None:
        self.patch, self.parent, self.module, self.root = patch, parent, module, root
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.imports: dict[str, str] = {}
        # The parent's names with what the fork calls the patch's value for them.
        self.renamed: dict[str, str] = {}
        self.lines = [line.rstrip("\n") for line in parent.source.lines]

    # What is assigned, and has an effect.

    @cached_property
    def assigned(self) -> dict[tuple[str, str], Assignment]:
        found: dict[tuple[str, str], Assignment] = {}
        for one in self.patch.assignments:
            target = find_target(one.path, self.root)
            if target is None or target.module != self.module:
                continue
            name, *attr = target.names
            if len(attr) > 1 or attr and name not in self.parent.classes:
                there = name in self.parent.imports or name in self.parent.definitions
                what = (
                    f"changes {'.'.join(target.names)}, which is no class of {self.module}"
                    if there
                    else f"changes {name}, which {self.module} of this release does not have"
                )
                self._problem(one.at, what, "" if there else _ANOTHER_RELEASE)
            elif reason := self._no_effect(name, attr[0] if attr else ""):
                self.notes.append(f"{one.at}: {'.'.join(target.names)} has no effect: {reason}")
            else:
                found[name, attr[0] if attr else ""] = one
        return found

    def _no_effect(self, name: str, attr: str) -> str:
        """Why an assignment changes nothing; "" if it may change something."""
        short = self.module.rpartition(".")[2]
        if attr:
            line = self._lineage(name)
            if any(attr in one.members for one in line) or is_known_word(self.root, attr):
                return ""
            uses = {
                node.attr
                for file in (self.parent, self.patch.file)
                for node in ast.walk(file.tree)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            }
            return "" if attr in uses else f"{name} has no {attr}, and nothing calls it"
        if any(True for _ in self._late_reads(name)):
            return ""
        if any(f"{self.module}.{name}" in _dotted(one, self.patch) for one in self._patch_reads):
            return ""
        if any(one.name == name for one in self.parent.plain_reads):
            return f"{short} reads {name} while it is imported, before the patch"
        return f"nothing in {short} reads {name}"

    def _lineage(self, name: str) -> list[Definition]:
        """A class of the parent and those of its bases that the file has."""
        definition = self.parent.definitions.get(name)
        if definition is None or not isinstance(definition.node, ast.ClassDef):
            return []
        bases = [ast.unparse(base) for base in definition.node.bases]
        return [definition, *(one for base in bases for one in self._lineage(base))]

    def _late_reads(self, name: str) -> Iterator[Reference]:
        """Where the parent reads one of its names while the model runs."""
        return (one for one in self.parent.plain_reads if one.name == name and not one.eager)

    @cached_property
    def _patch_reads(self) -> tuple[Reference, ...]:
        return tuple(one for one in self.patch.file.plain_reads if not one.eager)

    # Which pieces of the patch file come along.

    @cached_property
    def pieces(self) -> dict[str, _Needed]:
        """The definitions of the patch file that are needed, by name, without the methods."""
        found: dict[str, _Needed] = {}
        waiting = [*self.methods.values()]
        for key, one in self.assigned.items():
            if key not in self.methods and isinstance(one.value, Defined):
                waiting.append(self._add(found, one.value))
        while waiting:
            piece = waiting.pop()
            for read in piece.reads:
                value = piece.local.get(read.name)
                if isinstance(value, Defined):
                    if read.name not in found:
                        waiting.append(self._add(found, value))
                elif value is not None and not isinstance(value, Imported):
                    self._unreadable(read, value)
                elif value is None and read.name not in found:
                    nodes = self._statements(read.name)
                    if nodes:
                        found[read.name] = _Needed(nodes, {})
                        waiting.append(found[read.name])
        return found

    def _add(self, found: dict[str, _Needed], value: Defined) -> _Needed:
        name = getattr(value.node, "name", f"patched_{len(found)}")
        return found.setdefault(name, _needed(value))

    @cached_property
    def methods(self) -> dict[tuple[str, str], _Needed]:
        """The functions that are assigned to a class and that nobody else reads."""
        values = [one.value for one in self.assigned.values()]
        read = {one.name for one in self.patch.file.plain_reads if not one.eager}
        found: dict[tuple[str, str], _Needed] = {}
        for key, one in self.assigned.items():
            value = one.value
            if not key[1] or not isinstance(value, Defined) or not isinstance(value.node, Function):
                continue
            # Where it is assigned, it is read as well: once in the function that applies the patch.
            uses = sum(1 for other in values if other == value)
            calls = any(
                isinstance(node, ast.Call) and ast.unparse(node.func) == value.node.name
                for node in ast.walk(self.patch.file.tree)
            )
            if uses == 1 and not (calls and value.node.name in read):
                found[key] = _needed(value)
        return found

    def _statements(self, name: str) -> tuple[ast.stmt, ...]:
        """The statements at the top of the patch file that define `name`."""
        file = self.patch.file
        if name in file.definitions:
            return file.definitions[name].nodes
        return (file.guarded[name],) if name in file.guarded else ()

    def _unreadable(self, read: Reference, value: Value) -> None:
        what = f"reads `{read.name}` of the function around it, which"
        what += f" depends on {value.why}" if isinstance(value, Unknown) else " is no definition"
        at = self.patch.file.source.at(read.line, read.column)
        self._problem(at, what, "make it a constant of the file, or an attribute of the config")

    # What each name is called in the fork.

    def in_place(self, name: str) -> bool:
        """Whether the patch's definition can stand under the parent's name.

        Nothing may mean the parent's own: no code of the patch, and none that reads it while the
        module is imported.
        """
        definition, value = self.parent.definitions.get(name), self.assigned[name, ""].value
        if definition is None or not isinstance(value, Defined):
            return False
        kind = "class" if isinstance(value.node, ast.ClassDef) else "def"
        others = [one for one in self.assigned.values() if one.value == value]
        if definition.kind != kind or isinstance(value.node, ast.Lambda) or len(others) > 1:
            return False
        annotated = _annotated(self.parent.tree)
        eager = [
            one
            for one in self.parent.plain_reads
            if one.name == name and one.eager and one.position not in annotated
        ]
        direct = Imported(f"{self.module}.{name}")
        pieces = [*self.methods.values(), *self.pieces.values()]
        mine = [
            one
            for piece in pieces
            for one in piece.reads
            if self._value(one, piece) == direct and one.name not in self.pieces
        ]
        return not eager and not mine

    @cached_property
    def names(self) -> dict[str, str]:
        """What the pieces of the patch file are called in the fork."""
        placed: dict[str, str] = {}
        for (name, attr), one in self.assigned.items():
            if not attr and self.in_place(name):
                assert isinstance(one.value, Defined) and not isinstance(one.value.node, ast.Lambda)
                placed[one.value.node.name] = name
        bound = {*self.parent.definitions, *self.parent.imports, *self.parent.guarded}
        return {
            name: placed.get(name)
            or (name if name not in bound or self._is_parents(name, ()) else f"{name}_patched")
            for name in self.pieces
        }

    def _is_parents(self, name: str, inside: tuple[str, ...]) -> bool:
        """Whether a definition of the patch file says what the parent's of this name says."""
        theirs = self.parent.definitions.get(name)
        if name in self.renamed or (name, "") in self.assigned:
            return False
        if theirs is None:
            guard = self.parent.guarded.get(name)
            return guard is not None and _texts(self.pieces[name].nodes) == [plain_text(guard)]
        piece = self.pieces[name]
        if _texts(piece.nodes) != _texts(theirs.nodes):
            return False
        return all(
            one.name in (name, *inside)
            or (one.name in self.pieces and self._is_parents(one.name, (name, *inside)))
            or self._path(one, piece) == self._parents_path(one.name)
            for one in piece.reads
        )

    def _path(self, read: Reference, piece: _Needed) -> str:
        value = self._value(read, piece)
        return value.path if isinstance(value, Imported) else ""

    def _parents_path(self, name: str) -> str:
        """The dotted name of what the parent imports as `name`, or defines."""
        if name not in self.parent.imports:
            is_defined = name in self.parent.definitions or name in self.parent.guarded
            return f"{self.module}.{name}" if is_defined else ""
        node, alias = self.parent.imports[name]
        if isinstance(node, ast.Import):
            return alias.name if alias.asname else name
        return f"{_absolute(node, self.module)}.{alias.name}"

    def _value(self, read: Reference, piece: _Needed) -> Value | None:
        if read.name in piece.local:
            return piece.local[read.name]
        if read.name in self.patch.scope:
            return self.patch.scope[read.name]
        star = f"{self.module}.{read.name}"
        return Imported(star) if self.module in self.patch.stars and self._exports(read) else None

    def _exports(self, read: Reference) -> bool:
        """Whether `from modeling_llama import *` binds what is read."""
        listed = self.parent.definitions.get("__all__")
        if listed is not None:
            return any(read.name in map(_text_of, ast.walk(one)) for one in listed.nodes)
        bound = {*self.parent.definitions, *self.parent.imports, *self.parent.guarded}
        return read.name in bound and not read.name.startswith("_")

    def name_of(self, read: Reference, piece: _Needed) -> tuple[str, int]:
        """What the fork calls a name that a piece reads, and how many attributes that takes in."""
        name, at = read.name, self.patch.file.source.at(read.line, read.column)
        value = self._value(read, piece)
        if isinstance(value, Imported):
            dotted = ".".join([value.path, *read.attributes])
            if dotted.startswith(f"{self.module}."):
                inner = dotted.removeprefix(f"{self.module}.").split(".")
                taken = len(read.attributes) - len(inner) + 1
                if self._parents_path(inner[0]):
                    # Through its module, it is what the patch put there.
                    return self.renamed.get(inner[0], inner[0]) if taken else inner[0], max(
                        taken, 0
                    )
                what = f"reads {inner[0]}, which {self.module} of this release does not have"
                self._problem(at, what, _ANOTHER_RELEASE)
            elif name not in self.pieces:
                return self._imported(name, value.path, is_local=name in piece.local), 0
        if name in self.pieces:
            return self.names[name], 0
        if value is None and name not in _BUILTINS:
            if self._parents_path(name):
                what = f"reads {name}, which nothing in this file binds; the model's file does"
                self.notes.append(f"{at}: {what}")
            else:
                self._problem(at, f"reads {name}, which nothing in this file binds", "import it")
        return name, 0

    def _imported(self, name: str, path: str, *, is_local: bool) -> str:
        """The name of an import in the fork, which is written where the parent lacks it."""
        theirs = self._parents_path(name)
        other = name if theirs in ("", path) else f"{name}_patched"
        if theirs == path and name in self.parent.imports:
            return name
        package, _, last = path.rpartition(".")
        known = self.patch.file.imports.get(name) if not is_local else None
        if known is not None and isinstance(known[0], ast.Import) and other == name:
            alone = [
                f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                for node in self.patch.file.tree.body
                if isinstance(node, ast.Import)
                for alias in node.names
                if (alias.asname or alias.name.partition(".")[0]) == name
            ]
            self.imports[other] = "\n".join(alone)
        elif not package.strip("."):
            module = package or path
            said = f"from {module} import {last}" if package else f"import {path}"
            self.imports[other] = f"{said} as {other}" if other != last else said
        else:
            said = f"from {package} import {last}"
            self.imports[other] = f"{said} as {other}" if other != last else said
        return other

    # The text.

    def text(self) -> str:
        """The fork, not yet formatted; what prevents it is in `problems`."""
        self._check_imports()
        if not self.assigned or self.problems:
            if not self.problems:
                at = Location(self.patch.file.source.path)
                what = f"changes nothing of {self.module}: " + "; ".join(self.notes)
                self._problem(at, what, _ANOTHER_RELEASE)
            return ""
        for node in self.parent.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
                # In a fork, this would be a module of its own package.
                line, start = self.lines[node.lineno - 1], f"from {_absolute(node, self.module)}"
                self.lines[node.lineno - 1] = re.sub(r"^from\s+[.\w]+", start, line)
        for (name, attr), one in self.assigned.items():
            if not attr and not self.in_place(name):
                self.renamed[name] = self._name_of_value(name, one)
        edits: list[tuple[int, int, list[str]]] = []
        for read in self.parent.plain_reads:
            if read.name in self.renamed and not read.eager:
                self._rename_read(read, self.renamed[read.name])
        for (name, attr), one in self.assigned.items():
            if attr:
                edits += self._edit_class(name, attr, one)
        above, below = self._added(edits)
        edits.append(above)
        edits += below
        for first, last, lines in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            self.lines[first - 1 : last] = lines
        return "\n".join([*self._header(), *self.lines]) + "\n"

    def _check_imports(self) -> None:
        for node in self.patch.file.tree.body:
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            if node.module.partition(".")[0] != "transformers":
                continue
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                if alias.name != "*" and not has_name(self.root, node.module, alias.name):
                    at = self.patch.file.source.at_node(alias)
                    self._problem(at, f"imports {path}, which is not there", _ANOTHER_RELEASE)

    def _name_of_value(self, name: str, one: Assignment) -> str:
        """What the fork calls the value of a name of the parent's module."""
        value = one.value
        if isinstance(value, Imported):
            return self._name_of_import(value)
        if isinstance(value, Defined) and not isinstance(value.node, ast.Lambda):
            return self.names[value.node.name]
        if isinstance(value, Literal) and not isinstance(value.value, tuple):
            self.imports[f"{name}_patched"] = f"{name}_patched = {value.value!r}"
            return f"{name}_patched"
        self._problem(one.at, f"gives {name} a value that is no definition", "write a function")
        return name

    def _name_of_import(self, value: Imported) -> str:
        if value.path.startswith(f"{self.module}."):
            return value.path.removeprefix(f"{self.module}.")
        return self._imported(value.path.rpartition(".")[2], value.path, is_local=True)

    def _rename_read(self, read: Reference, name: str) -> None:
        raw = self.lines[read.line - 1].encode()
        # Names are replaced from the end of a line: others on it keep their columns.
        same = [
            one
            for one in self.parent.plain_reads
            if one.line == read.line and one.name in self.renamed and not one.eager
        ]
        shift = sum(
            len(self.renamed[one.name].encode()) - len(one.name.encode())
            for one in same
            if one.column < read.column
        )
        start = read.column + shift
        end = start + len(read.name.encode())
        self.lines[read.line - 1] = (raw[:start] + name.encode() + raw[end:]).decode()

    def _edit_class(
        self, name: str, attr: str, one: Assignment
    ) -> Iterator[tuple[int, int, list[str]]]:
        """Put a member into a class; where it is put on instances, those of subclasses have it."""
        definition = self.parent.definitions[name]
        text = self._member(attr, name, one)
        member = definition.members.get(attr)
        if member is not None:
            first, *others = member.nodes
            yield first_line(first), first.end_lineno or 0, text
            for node in others:
                yield first_line(node), node.end_lineno or 0, []
        else:
            end = definition.node.end_lineno or 0
            yield end + 1, end, ["", *text]
        for other in self.parent.classes:
            below = self.parent.definitions[other]
            if other == name or definition not in self._lineage(other):
                continue
            theirs = below.members.get(attr)
            if one.reach == "exactly" and theirs is None:
                what = (
                    f"replaces {attr} in instances of {name} and not of {other}, which inherits it"
                )
                self._problem(one.at, what, "assign to the class")
            if (
                one.reach == "instances"
                and theirs is not None
                and (other, attr) not in self.assigned
            ):
                rest = [
                    node for node in ast.iter_child_nodes(below.node) if node not in theirs.nodes
                ]
                has_body = any(isinstance(node, ast.stmt) for node in rest)
                for number, node in enumerate(theirs.nodes):
                    left = [] if has_body or number else ["    pass"]
                    yield first_line(node), node.end_lineno or 0, left

    def _member(self, attr: str, name: str, one: Assignment) -> list[str]:
        value = one.value
        piece = self.methods.get((name, attr))
        if piece is not None:
            return self._written(piece, attr, 4)
        if isinstance(value, Imported):
            return [f"    {attr} = {self._name_of_import(value)}"]
        if isinstance(value, Defined):
            if isinstance(value.node, ast.Lambda):
                self._problem(one.at, "assigns a lambda", "write a function")
                return []
            return [f"    {attr} = {self.names[value.node.name]}"]
        if isinstance(value, Literal) and not isinstance(value.value, tuple):
            return [f"    {attr} = {value.value!r}"]
        self._problem(one.at, f"gives {name}.{attr} a value that is no definition", "write it out")
        return []

    def _added(
        self, edits: list[tuple[int, int, list[str]]]
    ) -> tuple[tuple[int, int, list[str]], list[tuple[int, int, list[str]]]]:
        """The imports and the pieces: above the parent's first definition, or where they can be."""
        placed: list[tuple[int, int, list[str]]] = []
        starts = [
            first_line(d.nodes[0]) for d in self.parent.definitions.values() if d.kind != "other"
        ]
        top = min(starts, default=len(self.lines) + 1)
        ordered = sorted(self.pieces.items(), key=lambda item: item[1].nodes[0].lineno)
        behind: dict[str, int] = {}
        written: set[ast.AST] = set()
        for name, piece in ordered:
            target = self.names[name]
            if self._is_parents(name, ()) or written & set(piece.nodes):
                continue
            written |= set(piece.nodes)
            lines = self._written(piece, target if target != name else "", 0)
            replaced = self.parent.definitions.get(target)
            if replaced is not None:
                node = replaced.node
                placed.append((first_line(node), node.end_lineno or 0, lines))
                continue
            place = top
            for read in piece.reads:
                called = self.name_of(read, piece)[0]
                theirs = self.parent.definitions.get(called)
                if read.eager and theirs is not None and theirs.kind != "other":
                    place = max(place, (theirs.node.end_lineno or 0) + 1)
                place = max(place, behind.get(read.name, 0) if read.eager else 0)
            behind[name] = place
            placed.append((place, place - 1, ["", "", *lines, "", ""]))
        merged: dict[int, list[str]] = {}
        rest = []
        for first, last, lines in placed:
            if last < first:
                merged.setdefault(first, []).extend(lines)
            else:
                rest.append((first, last, lines))
        head = [line for text in self.imports.values() for line in text.split("\n")]
        above = (top, top - 1, [*head, "", *merged.pop(top, [])])
        return above, [*rest, *((place, place - 1, lines) for place, lines in merged.items())]

    def _written(self, piece: _Needed, name: str, indent: int) -> list[str]:
        """The lines of a piece in the names of the fork, `name` being what it is called there."""
        file, found = self.patch.file, []
        for node in piece.nodes:
            assert isinstance(node, ast.stmt)
            first, last = first_line(node), node.end_lineno or 0
            raw = [line.rstrip("\n").encode() for line in file.source.lines]
            inside = [one for one in piece.reads if first <= one.line <= last]
            for read in sorted(inside, key=lambda one: one.position, reverse=True):
                called, taken = self.name_of(read, piece)
                end = (read.line, read.column + len(read.name.encode()))
                end = read.ends[taken - 1] if taken else end
                if end[0] != read.line:
                    at = file.source.at(read.line, read.column)
                    self._problem(at, "is a name on several lines", "write it on one line")
                    continue
                line = raw[read.line - 1]
                raw[read.line - 1] = line[: read.column] + called.encode() + line[end[1] :]
            if name:
                line = raw[node.lineno - 1]
                pattern = rb"((?:class|def)\s+)\w+" if hasattr(node, "body") else rb"(\s*)\w+"
                rest = re.sub(pattern, rb"\1" + name.encode(), line[node.col_offset :], count=1)
                raw[node.lineno - 1] = line[: node.col_offset] + rest
            if indent:
                self._check_method(node)
            top = first
            while top > 1 and raw[top - 2].lstrip().startswith(b"#") and top - 1 > 1:
                top -= 1
            for number in range(top, last + 1):
                text = raw[number - 1].decode()
                if number not in file.inside_strings:
                    text = (" " * indent + text[min(node.col_offset, _margin(text)) :]).rstrip()
                found.append(text)
        return found

    def _check_method(self, node: ast.stmt) -> None:
        for inner in ast.walk(node):
            name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
            if is_private(name) and isinstance(inner, ast.expr):
                at = self.patch.file.source.at_node(inner)
                self._problem(at, f"reads {name}, which means another name in a class", "rename it")

    def _header(self) -> list[str]:
        """The comments at the top of the patch file; those of the parent's file go."""
        for index, line in enumerate(self.lines):
            if line.strip() and not line.startswith("#"):
                del self.lines[:index]
                break
        lines = [line.rstrip("\n") for line in self.patch.file.source.lines]
        end = next(
            (i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0
        )
        return lines[:end]

    def _problem(self, at: Location, what: str, hint: str) -> None:
        problem = Problem(at, "PG810", what, hint)
        if problem not in self.problems:
            self.problems.append(problem)


def _without_unread(fork: File, parent: File) -> File:
    """The fork without the parent's functions that only replaced code has called."""
    read = {one.name for one in parent.plain_reads}
    while True:
        still = {one.name for one in fork.plain_reads}
        unread = [
            definition.node
            for name, definition in fork.definitions.items()
            if definition.kind == "def" and name in read - still and name in parent.definitions
        ]
        if not unread:
            return fork
        lines = list(fork.source.lines)
        for node in unread[::-1]:
            del lines[first_line(node) - 1 : node.end_lineno]
        fork = read_file(make_source("".join(lines), fork.source.path))


def _needed(value: Defined) -> _Needed:
    return _Needed((value.node,), value.local)


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [plain_text(node) for node in nodes]


def _text_of(node: ast.AST) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _margin(text: str) -> int:
    return len(text) - len(text.lstrip())


def _dotted(read: Reference, patch: Patch) -> str:
    """A read of the patch file through a module, with its whole path."""
    value = patch.scope.get(read.name)
    path = value.path if isinstance(value, Imported) else ""
    return ".".join([path, *read.attributes]) if read.attributes else ""


def _annotated(tree: ast.Module) -> frozenset[tuple[int, int]]:
    """Where names stand in annotations."""
    found = set()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                found |= {
                    (n.lineno, n.col_offset) for n in ast.walk(part) if isinstance(n, ast.Name)
                }
    return frozenset(found)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    above = module.split(".")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def has_name(root: Path, module: str, name: str) -> bool:
    """Whether a module of a release mentions `name`, or is a package that holds it."""
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            if (base / name).is_dir() or (base / f"{name}.py").is_file():
                return True
            if re.search(rf"\b{re.escape(name)}\b", path.read_text(encoding="utf-8")):
                return True
            # A package of 5.x lists no names.
            return path.name == "__init__.py" and find_target(f"{module}.{name}", root) is not None
    return False


@lru_cache(maxsize=64)
def is_known_word(root: Path, word: str) -> bool:
    """Whether general modules of a release, or PyTorch's own protocol, name an attribute."""
    if word in ("forward", "training", "train", "eval") or word.startswith("__"):
        return True
    found = re.compile(rf"\b{re.escape(word)}\b")
    folders = ("", "generation", "integrations", "loss", "utils", "quantizers")
    files = [one for folder in folders for one in (root / "transformers" / folder).glob("*.py")]
    return any(found.search(path.read_text(encoding="utf-8", errors="replace")) for path in files)
