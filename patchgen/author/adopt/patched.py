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
    changes,
    exports,
    find_target,
    has_name,
    read_patch,
)
from patchgen.author.adopt.proof import flatten_text
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import Definition, File, defined_names, read_file
from patchgen.compiler.emit.format import format_modular, format_texts
from patchgen.compiler.settings import Settings
from patchgen.facts.decorators import FIELD_DECORATORS, RULES, Rule
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_by, parameters
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.reads import Reference, is_private
from patchgen.syntax.same import Function, plain_text
from patchgen.syntax.scopes import references
from patchgen.syntax.text import make_source, read_source

_ANOTHER_RELEASE = "name the release that the patch was written for: --release X"
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
_Edit = tuple[int, int, list[str]]  # the lines from the first to the last, and what they become


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
        Problem(
            one.at, "PG810", f"changes {one.path}, which no modeling file has", _ANOTHER_RELEASE
        )
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
    made = _Fork(patch, parent, module, root)
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
        raise Refusals(
            [replace(one, at=_place(one, patch), hint=_ANOTHER_RELEASE) for one in calls]
        )
    there = read_file(make_source(output, "output.py")).definitions
    fork, parent, notes = forked.fork, forked.parent, [*one.notes]
    read = {reference.name for reference in fork.plain_reads}
    unused: list[ast.stmt | ast.expr] = []
    for name, definition in fork.definitions.items() if output else ():
        if name in parent.definitions and name not in {*there, *read}:
            unused.append(definition.node)
        elif name in there and isinstance(definition.node, ast.ClassDef):
            kept = _texts(getattr(there[name].node, "decorator_list", ()))
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


@dataclass(frozen=True)
class _Piece:
    """A definition of the patch file that the fork needs, and what is bound around it."""

    nodes: tuple[ast.stmt, ...]
    local: Mapping[str, Value]

    @cached_property
    def reads(self) -> tuple[Reference, ...]:
        return tuple(one for one in references(self.nodes) if not one.quoted)


class _Fork:
    """Puts the assignments into the lines of the parent's file."""

    def __init__(self, patch: Patch, parent: File, module: str, root: Path) -> None:
        self.patch, self.parent, self.module, self.root = patch, parent, module, root
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.dead: list[tuple[Location, str]] = []
        self.imports: dict[str, str] = {}
        # The parent's names for which the code of the model reads another one.
        self.renamed: dict[str, str] = {}

    def text(self) -> str:
        """The fork, not yet formatted; what prevents it is in `problems`."""
        self._check_imports()
        for at, what in () if self.assigned else self.dead:
            self._problem(at, what, _ANOTHER_RELEASE)
        if self.problems:
            return ""
        for (name, attr), one in self.assigned.items():
            if not attr and name not in self.in_place:
                self.renamed[name] = self._name_of_value(name, one)
        lines = self._parents_lines()
        edits = [edit for key, one in self.assigned.items() for edit in self._edit_class(*key, one)]
        edits += self._added(len(lines))
        for first, last, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            lines[first - 1 : last] = text
        return "\n".join([*_header(self.patch.file), *lines]) + "\n"

    # What is assigned, and has an effect.

    @cached_property
    def assigned(self) -> dict[tuple[str, str], Assignment]:
        """The assignments by the name in the parent's module, and the attribute of that class."""
        found: dict[tuple[str, str], Assignment] = {}
        for one in self.patch.assignments:
            target = find_target(one.path, self.root)
            if target is None or target.module != self.module:
                continue
            (name, *attr), text = target.names, ".".join(target.names)
            if len(attr) > 1 or attr and name not in self.parent.classes:
                what = f"changes {text}, which is no class of {self.module} in this release"
                self._problem(one.at, what, _ANOTHER_RELEASE)
            elif reason := self._no_effect(name, *attr):
                self.dead.append((one.at, f"{text} has no effect: {reason}"))
            else:
                found[name, attr[0] if attr else ""] = one
        return found

    def _no_effect(self, name: str, attr: str = "") -> str:
        """Why an assignment changes nothing; "" if it may change something."""
        short = self.module.rpartition(".")[2]
        if attr:
            files = self.parent, self.patch.file
            used = {name for file in files for name in _attributes(file.tree, ast.Load, "")}
            has_it = any(attr in one.members for one in self._lineage(name))
            known = has_it or attr in used or is_known_word(self.root, attr)
            return "" if known else f"{name} has no {attr}, and nothing calls it"
        reads = [one for one in self.parent.plain_reads if one.name == name]
        through = [
            one for one in self.patch.file.plain_reads if self._chain(one, {})[0][:1] == (name,)
        ]
        if any(not one.eager for one in [*reads, *(one for one in through if one.attributes)]):
            return ""
        if reads:
            return f"{short} reads {name} while it is imported, before the patch"
        return f"nothing in {short} reads {name}"

    def _lineage(self, name: str) -> list[Definition]:
        """A class of the parent and those of its bases that the file has."""
        definition = self.parent.definitions.get(name)
        if definition is None or not isinstance(definition.node, ast.ClassDef):
            return []
        bases = [ast.unparse(base) for base in definition.node.bases]
        return [definition, *(one for base in bases for one in self._lineage(base))]

    def other_releases(self) -> Iterator[str]:
        """What says that a method was written for another release: parameters and attributes."""
        for (name, attr), piece in self.methods.items():
            (node,), line = piece.nodes, self._lineage(name)
            theirs = next((one.members[attr].method for one in line if attr in one.members), None)
            if not isinstance(node, Function):
                continue
            at = self.patch.file.source.at_node(node)
            if theirs is not None and node.args.kwarg is None:
                lacking = [one for one in parameters(theirs) if one not in parameters(node)]
                # With as many parameters, they only have other names.
                if len(parameters(node)) < len(parameters(theirs)):
                    yield f"{at}: {name}.{attr} of this release also takes {', '.join(lacking)}"
            known = {member for one in line for member in one.members}
            known |= {name for one in line for name in _attributes(one.node, ast.Store)}
            mine = {*_attributes(node, ast.Load)} - {*_attributes(node, ast.Store)} - known
            for missing in sorted(mine - {key[1] for key in self.assigned if key[0] == name}):
                if not is_known_word(self.root, missing):
                    yield f"{at}: reads self.{missing}, which {name} of this release does not set"

    # Which definitions of the patch file come along.

    @cached_property
    def methods(self) -> dict[tuple[str, str], _Piece]:
        """The functions that are assigned to classes."""
        return {
            key: _Piece((one.value.node,), one.value.local)
            for key, one in self.assigned.items()
            if key[1] and isinstance(one.value, Defined) and isinstance(one.value.node, Function)
        }

    @cached_property
    def pieces(self) -> dict[str, _Piece]:
        """The other definitions that are needed, by name."""
        found: dict[str, _Piece] = {}
        waiting = [*self.methods.values()]
        for key, one in self.assigned.items():
            if key not in self.methods and isinstance(one.value, Defined):
                waiting += self._add(found, one.value)
        while waiting:
            piece = waiting.pop()
            for read in piece.reads:
                value, at = piece.local.get(read.name), self._at(read)
                if isinstance(value, Defined):
                    waiting += self._add(found, value)
                elif value is None and read.name not in found:
                    nodes = self._statements(read.name)
                    found |= {read.name: _Piece(nodes, {})} if nodes else {}
                    waiting += [found[read.name]] if nodes else []
                elif value is not None and not isinstance(value, Imported):
                    why = f"depends on {value.why}" if isinstance(value, Unknown) else "is a value"
                    what = f"reads `{read.name}` of the function around it, which {why}"
                    self._problem(at, what, "make it a constant of the file")
        return found

    def _add(self, found: dict[str, _Piece], value: Defined) -> list[_Piece]:
        """Add a function or class; nothing where it is there already."""
        node, at = value.node, self.patch.file.source.at_node(value.node)
        if isinstance(node, ast.Lambda):
            self._problem(at, "assigns a lambda", "write a function")
            return []
        there = found.get(node.name)
        if there is not None and there.nodes != (node,):
            self._problem(at, f"is one of two that are called {node.name}", "give it another name")
        if there is not None:
            return []
        found[node.name] = _Piece((node,), value.local)
        return [found[node.name]]

    def _statements(self, name: str) -> tuple[ast.stmt, ...]:
        """The statements at the top of the patch file that define `name`."""
        file = self.patch.file
        if name not in file.definitions:
            return (file.guarded[name],) if name in file.guarded else ()
        for node in file.tree.body:
            sets = isinstance(node, Function) and any(
                isinstance(inner, ast.Global) and name in inner.names for inner in ast.walk(node)
            )
            if isinstance(node, Function) and (sets or name in self.patch.changed.get(node, ())):
                at = file.source.at_node(node)
                if node in self.patch.changed:
                    self._problem(
                        at, f"changes {name}, which the patch reads", "make it a constant"
                    )
                elif not any(node in piece.nodes for piece in self.methods.values()):
                    self.notes.append(f"{at}: {node.name} sets {name}, and stays in this file")
        return tuple(
            node for node in file.tree.body if name in defined_names(node) or changes(node, name)
        )

    # What each name is called in the fork.

    @cached_property
    def in_place(self) -> dict[str, str]:
        """The names of the parent under which the patch's definition can stand, with that one's.

        Nothing may mean the parent's own: no code of the patch, and none that reads it while the
        module is imported.
        """
        found: dict[str, str] = {}
        annotated = _annotated(self.parent.tree)
        eager = {
            one.name
            for one in self.parent.plain_reads
            if one.eager and one.position not in annotated
        }
        originals = {
            "".join(self._chain(one, piece.local)[0][:1])
            for piece in [*self.methods.values(), *self.pieces.values()]
            for one in piece.reads
            if self._chain(one, piece.local)[1] < 1 or one.eager
        }
        for (name, attr), one in self.assigned.items():
            theirs, value = self.parent.definitions.get(name), one.value
            if attr or theirs is None or name in {*eager, *originals}:
                continue
            if isinstance(value, Defined) and not isinstance(value.node, ast.Lambda):
                kind = "class" if isinstance(value.node, ast.ClassDef) else "def"
                if theirs.kind == kind and value.node.name not in found.values():
                    found[name] = value.node.name
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """What the pieces of the patch file are called in the fork."""
        placed = {own: name for name, own in self.in_place.items()}
        return {
            name: placed.get(name)
            or (f"{name}_patched" if self._path(name) and not self._is_parents(name) else name)
            for name in self.pieces
        }

    def _path(self, name: str) -> str:
        """The dotted name of what the parent imports as `name`, or defines; "" without one."""
        parent = self.parent
        if name not in parent.imports:
            is_there = name in parent.definitions or name in parent.guarded
            return f"{self.module}.{name}" if is_there else ""
        node, alias = parent.imports[name]
        if isinstance(node, ast.Import):
            return alias.name if alias.asname else name
        return f"{_absolute(node, self.module)}.{alias.name}"

    def _is_parents(self, name: str, inside: tuple[str, ...] = ()) -> bool:
        """Whether a definition of the patch file says what the parent's of this name says."""
        piece, theirs = self.pieces[name], self.parent.definitions.get(name)
        nodes = theirs.nodes if theirs is not None else (self.parent.guarded.get(name),)
        if (name, "") in self.assigned or nodes == (None,):
            return False
        if _texts(piece.nodes) != _texts(node for node in nodes if node is not None):
            return False
        inside = (*inside, name)
        return all(
            one.name in inside
            or (one.name in self.pieces and self._is_parents(one.name, inside))
            or self._value(one.name, piece.local) == Imported(self._path(one.name))
            # The parent reads it nowhere but in annotations.
            or one.name not in self.pieces
            and not self._path(one.name)
            for one in piece.reads
        )

    def _value(self, name: str, local: Mapping[str, Value]) -> Value | None:
        """What the patch file means by a name."""
        if name in local or name in self.patch.scope:
            return local.get(name) or self.patch.scope[name]
        is_there = self.module in self.patch.stars and exports(self.module, name, self.root)
        return Imported(f"{self.module}.{name}") if is_there else None

    def _chain(self, read: Reference, local: Mapping[str, Value]) -> tuple[tuple[str, ...], int]:
        """The name in the parent's module that a read means, and how many attributes say so.

        `LlamaMLP` has none, and is what the parent defines; `modeling_llama.LlamaMLP` has one, and
        is what stands in the module by then.  A name of a member has less than none.
        """
        value = self._value(read.name, local)
        dotted = ".".join([value.path, *read.attributes]) if isinstance(value, Imported) else ""
        if not dotted.startswith(f"{self.module}."):
            return (), 0
        inner = tuple(dotted.removeprefix(f"{self.module}.").split("."))
        return inner, len(read.attributes) - len(inner) + 1

    def _name_of(self, read: Reference, piece: _Piece) -> tuple[str, int]:
        """What the fork calls a name that a piece reads, and how many attributes that takes in."""
        name, at = read.name, self._at(read)
        inner, taken = self._chain(read, piece.local)
        theirs, value = "".join(inner[:1]), self._value(name, piece.local)
        if taken < 0 or read.eager and inner[:2] in self.assigned:
            # In the fork there is no other method than the new one.
            what = f"keeps what {'.'.join(inner)} was before the patch"
            self._problem(at, what, "write the class, with a method that calls `super()`")
            return name, 0
        if theirs and self._path(theirs):
            is_original = not taken or read.eager
            return theirs if is_original else self.renamed.get(theirs, theirs), taken
        if theirs:
            what = f"reads {theirs}, which {self.module} of this release does not have"
            self._problem(at, what, _ANOTHER_RELEASE)
        elif name in self.pieces:
            return self.names[name], 0
        elif isinstance(value, Imported):
            return self._imported(name, value.path, piece.local), 0
        elif value is None and name not in _BUILTINS and self._path(name):
            note = f"reads {name}, which nothing in this file binds; the model's file does"
            if not any(one.endswith(note) for one in self.notes):
                self.notes.append(f"{at}: {note}")
        elif value is None and name not in _BUILTINS:
            self._problem(at, f"reads {name}, which nothing in this file binds", "import it")
        return name, 0

    def _imported(self, name: str, path: str, local: Mapping[str, Value]) -> str:
        """The name of an import in the fork, which is written where the parent lacks it."""
        theirs, (package, _, last) = self._path(name), path.rpartition(".")
        if theirs == path:
            return name
        other = f"{name}_patched" if theirs else name
        known = None if name in local else self.patch.file.imports.get(name)
        if not theirs and known is not None and isinstance(known[0], ast.Import):
            # `import torch` and `import torch.utils.checkpoint` bind one name.
            nodes = [node for node in self.patch.file.tree.body if isinstance(node, ast.Import)]
            mine = [one for node in nodes for one in node.names if bound_by(one) == name]
            self.imports[name] = "\n".join(ast.unparse(ast.Import([one])) for one in mine)
            return name
        said = f"from {package} import {last}" if package else f"import {path}"
        self.imports[other] = said if other == last else f"{said} as {other}"
        return other

    # The text.

    def _parents_lines(self) -> list[str]:
        """The parent's lines without its header, whose code reads what the patch put in."""
        raw = [line.rstrip("\n").encode() for line in self.parent.source.lines]
        for node in self.parent.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
                # In a fork, this would be a module of its own package.
                begin = f"from {_absolute(node, self.module)}".encode()
                raw[node.lineno - 1] = re.sub(rb"^from\s+[.\w]+", begin, raw[node.lineno - 1])
        late = [one for one in self.parent.plain_reads if not one.eager]
        for read in sorted(late, key=lambda one: one.position, reverse=True):
            if read.name in self.renamed:
                self._write(raw, read, self.renamed[read.name], 0, self.parent)
        for number, line in enumerate(raw):
            if line.strip() and not line.startswith(b"#"):
                break
            raw[number] = b""
        return [line.decode() for line in raw]

    def _write(
        self, raw: list[bytes], read: Reference, called: str, taken: int, file: File
    ) -> None:
        """Write another name where one is read."""
        line, end = raw[read.line - 1], (read.line, read.column + len(read.name.encode()))
        is_there = line[read.column :].startswith(read.name.encode())
        end = read.ends[taken - 1] if taken else end
        if end[0] != read.line or not is_there:
            at = file.source.at(read.line, read.column)
            self._problem(at, f"reads {read.name} on several lines", "write it on one line")
            return
        raw[read.line - 1] = line[: read.column] + called.encode() + line[end[1] :]

    def _check_imports(self) -> None:
        for node in self.patch.file.tree.body:
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if not isinstance(node, ast.ImportFrom) or module.partition(".")[0] != "transformers":
                continue
            for alias in node.names:
                if not has_name(self.root, module, alias.name):
                    at = self.patch.file.source.at_node(alias)
                    what = f"imports {module}.{alias.name}, which this release does not have"
                    self._problem(at, what, _ANOTHER_RELEASE)

    def _name_of_value(self, name: str, one: Assignment) -> str:
        """What the fork calls a value that is assigned."""
        value = one.value
        if isinstance(value, Imported) and value.path.startswith(f"{self.module}."):
            owner, *attr = value.path.removeprefix(f"{self.module}.").split(".")
            if attr:
                hint = "write the class, with a method that calls `super()`"
                self._problem(one.at, f"gives {name} a method of {owner}", hint)
        if isinstance(value, Imported):
            inner = value.path.removeprefix(f"{self.module}.")
            if inner != value.path:
                return inner
            return self._imported(value.path.rpartition(".")[2], value.path, {"": value})
        if isinstance(value, Defined):
            return self.names.get(getattr(value.node, "name", ""), name)
        if isinstance(value, Literal) and not isinstance(value.value, tuple):
            return repr(value.value)
        self._problem(one.at, f"gives {name} a value that is no definition", "write a function")
        return name

    def _edit_class(self, name: str, attr: str, one: Assignment) -> Iterator[_Edit]:
        """Put a member into a class; what is put on instances, those of subclasses have as well."""
        if not attr:
            return
        definition, piece = self.parent.definitions[name], self.methods.get((name, attr))
        decorators = _texts(getattr(definition.node, "decorator_list", ()))
        if any(f"N:{one};" in text for one in FIELD_DECORATORS for text in decorators):
            self._problem(one.at, f"changes {name}, whose fields are made before", "write a class")
        text = (
            self._written(piece, attr, 4)
            if piece is not None
            else [f"    {attr} = {self._name_of_value(f'{name}.{attr}', one)}"]
        )
        end = definition.node.end_lineno or 0
        if attr in definition.members:
            yield from _edits_of_member(definition, attr, text)
        else:
            yield end + 1, end, ["", *text]
        for other in self.parent.classes:
            below = self.parent.definitions[other]
            if other == name or definition not in self._lineage(other):
                continue
            if one.reach == "exactly" and attr not in below.members:
                what = f"replaces {attr} for {name} and not for {other}, which inherits it"
                self._problem(one.at, what, "assign to the class")
            is_new = (other, attr) in self.assigned
            if one.reach == "instances" and attr in below.members and not is_new:
                yield from _edits_of_member(below, attr, [])

    def _added(self, end: int) -> Iterator[_Edit]:
        """The imports and the pieces, which stand last if they need a class of the parent."""
        starts = [first_line(one.nodes[0]) for one in self.parent.definitions.values()]
        top: list[str] = []
        bottom: list[str] = []
        last: set[str] = set()
        written: set[ast.AST] = set()
        for name, piece in sorted(self.pieces.items(), key=lambda item: item[1].nodes[0].lineno):
            target = self.names[name]
            if written & set(piece.nodes) or self._path(target) and target not in self.in_place:
                continue
            written |= set(piece.nodes)
            lines = self._written(piece, target, 0)
            if target in self.in_place:
                node = self.parent.definitions[target].node
                yield first_line(node), node.end_lineno or 0, lines
                continue
            called = {self._name_of(one, piece)[0] for one in piece.reads if one.eager}
            if called & {*self.parent.definitions, *last}:
                last.add(target)
            (bottom if target in last else top).extend(["", *lines, ""])
        imports = [line for text in self.imports.values() for line in text.split("\n")]
        yield min(starts, default=1), min(starts, default=1) - 1, [*imports, *top]
        yield end + 1, end, bottom

    def _written(self, piece: _Piece, name: str, indent: int) -> list[str]:
        """The lines of a piece in the names of the fork, `name` being what it is called there."""
        file = self.patch.file
        raw = [line.rstrip("\n").encode() for line in file.source.lines]
        for read in sorted(piece.reads, key=lambda one: one.position, reverse=True):
            called, taken = self._name_of(read, piece)
            if called != read.name or taken:
                self._write(raw, read, called, taken, file)
        found: list[str] = []
        for node in piece.nodes:
            self._check(node, piece, name, indent)
            for handler in node.handlers if isinstance(node, ast.Try) else ():
                if all(isinstance(one, ast.Expr) for one in handler.body):
                    # It says that a package is missing, which the first use of it says as well.
                    start, end = handler.body[0], handler.body[-1].end_lineno or 0
                    raw[start.lineno - 1] = b" " * start.col_offset + b"pass"
                    raw[start.lineno : end] = [b""] * (end - start.lineno)
            own = getattr(node, "name", "")
            if own and own != name:
                line, begin = raw[node.lineno - 1], node.col_offset
                rest = re.sub(
                    rb"(class|def)(\s+)\w+", rb"\1\2" + name.encode(), line[begin:], count=1
                )
                raw[node.lineno - 1] = line[:begin] + rest
            elif not own and name not in {*defined_names(node), *file.guarded}:
                rest = re.sub(rb"^\w+", name.encode(), raw[node.lineno - 1])
                raw[node.lineno - 1] = rest
            first, last = first_line(node), node.end_lineno or 0
            while first > 2 and raw[first - 2].lstrip().startswith(b"#"):
                first -= 1
            for number in range(first, last + 1):
                text = raw[number - 1].decode()
                if number not in file.inside_strings:
                    margin = min(node.col_offset, len(text) - len(text.lstrip()))
                    text = (" " * indent + text[margin:]).rstrip()
                found.append(text)
        return found

    def _check(self, node: ast.stmt, piece: _Piece, name: str, indent: int) -> None:
        """Refuse what would mean another thing in the model's file."""
        names = {own for own, other in self.names.items() if own != other}
        is_renamed = name not in {*defined_names(node), *self.patch.file.guarded} and not indent
        if is_renamed and not isinstance(
            node, Function | ast.ClassDef | ast.Assign | ast.AnnAssign
        ):
            at = self.patch.file.source.at_node(node)
            self._problem(at, f"binds what the model's file calls {name}", "give it another name")
        for inner in ast.walk(node):
            what = ""
            match inner:
                case ast.Attribute(attr=attr) if indent and is_private(attr):
                    what = f"reads {attr}, which is another name in a class"
                case ast.Global(names=listed) if names & {*listed}:
                    what = f"changes {', '.join(listed)}, of which the model's file has another"
                case ast.ImportFrom(module=module) if module == self.module:
                    what = "imports from the patched module while the model runs"
            if what and isinstance(inner, ast.expr | ast.stmt):
                self._problem(self.patch.file.source.at_node(inner), what, "change that line")

    def _at(self, read: Reference) -> Location:
        return self.patch.file.source.at(read.line, read.column)

    def _problem(self, at: Location, what: str, hint: str) -> None:
        problem = Problem(at, "PG810", what, hint)
        if problem not in self.problems:
            self.problems.append(problem)


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [plain_text(node) for node in nodes]


def _attributes(tree: ast.AST, use: type[ast.expr_context], owner: str = "self") -> Iterator[str]:
    """The attributes that code reads or sets; with an owner, those of `self` alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, use):
            if not owner or isinstance(node.value, ast.Name) and node.value.id == owner:
                yield node.attr


def _edits_of_member(definition: Definition, attr: str, text: list[str]) -> Iterator[_Edit]:
    """Another text for a member of a class, which may consist of several statements."""
    nodes = definition.members[attr].nodes
    others = [one for one in definition.members.values() if one.name != attr]
    for number, node in enumerate(nodes):
        left = [] if number else text or ([] if others else ["    pass"])
        yield first_line(node), node.end_lineno or 0, left


def _annotated(tree: ast.Module) -> frozenset[tuple[int, int]]:
    """Where names stand in annotations."""
    parts = [
        part
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(part, ast.expr)
    ]
    names = [n for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
    return frozenset((name.lineno, name.col_offset) for name in names)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    above = module.split(".")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _header(file: File) -> list[str]:
    """The comments at the top of a file."""
    lines = [line.rstrip("\n") for line in file.source.lines]
    end = next((n for n, line in enumerate(lines) if line and not line.startswith("#")), 0)
    return lines[:end]


@lru_cache(maxsize=64)
def is_known_word(root: Path, word: str) -> bool:
    """Whether general modules of a release, or PyTorch's own protocol, name an attribute."""
    if word in ("forward", "training", "train", "eval") or word.startswith("__"):
        return True
    found = re.compile(rf"\b{re.escape(word)}\b")
    folders = ("", "generation", "integrations", "loss", "utils", "quantizers")
    files = [one for folder in folders for one in (root / "transformers" / folder).glob("*.py")]
    return any(found.search(path.read_text(encoding="utf-8", errors="replace")) for path in files)
