"""What a patch assigns in one file of transformers, what of the patch file that needs, and how the
fork calls it.

patch file                                parent                       fork
def rotate(x): ...                        def rotate(x): ...           rotate_patched
def forward(self, x):                                                  LlamaMLP.forward
    return rotate(silu(x))                silu is imported             silu

Each name means what it means to the patch: a helper that is called like another definition of the
parent gets another name.  What code of the parent reads while its module is imported, it has read
before the patch runs.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchgen.author.adopt.patch_targets import exports, find_target, has_name, is_known_word
from patchgen.author.adopt.patch_values import (
    Assignment,
    Defined,
    Imported,
    Literal,
    Patch,
    Unknown,
    Value,
    changes,
)
from patchgen.author.align.file import Definition, File, defined_names
from patchgen.syntax.bound import bound_by, parameters
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.reads import Reference
from patchgen.syntax.same import Function, plain_text
from patchgen.syntax.scopes import references

ANOTHER_RELEASE = "name the release that the patch was written for: --release X"
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class Piece:
    """A definition of the patch file that the fork needs, and what is bound around it."""

    nodes: tuple[ast.stmt, ...]
    local: Mapping[str, Value]

    @cached_property
    def reads(self) -> tuple[Reference, ...]:
        return tuple(one for one in references(self.nodes) if not one.quoted)


class PatchNames:
    """What a patch assigns in one file of transformers, what that needs, and what it is called."""

    def __init__(self, patch: Patch, parent: File, module: str, root: Path) -> None:
        self.patch, self.parent, self.module, self.root = patch, parent, module, root
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.dead: list[tuple[Location, str]] = []
        self.imports: dict[str, str] = {}
        # The parent's names for which the code of the model reads another one.
        self.renamed: dict[str, str] = {}

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
                self._problem(one.at, what, ANOTHER_RELEASE)
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
    def methods(self) -> dict[tuple[str, str], Piece]:
        """The functions that are assigned to classes."""
        return {
            key: Piece((one.value.node,), one.value.local)
            for key, one in self.assigned.items()
            if key[1] and isinstance(one.value, Defined) and isinstance(one.value.node, Function)
        }

    @cached_property
    def pieces(self) -> dict[str, Piece]:
        """The other definitions that are needed, by name."""
        found: dict[str, Piece] = {}
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
                    found |= {read.name: Piece(nodes, {})} if nodes else {}
                    waiting += [found[read.name]] if nodes else []
                elif value is not None and not isinstance(value, Imported):
                    why = f"depends on {value.why}" if isinstance(value, Unknown) else "is a value"
                    what = f"reads `{read.name}` of the function around it, which {why}"
                    self._problem(at, what, "make it a constant of the file")
        return found

    def _add(self, found: dict[str, Piece], value: Defined) -> list[Piece]:
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
        found[node.name] = Piece((node,), value.local)
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
        return f"{absolute_module(node, self.module)}.{alias.name}"

    def _is_parents(self, name: str, inside: tuple[str, ...] = ()) -> bool:
        """Whether a definition of the patch file says what the parent's of this name says."""
        piece, theirs = self.pieces[name], self.parent.definitions.get(name)
        nodes = theirs.nodes if theirs is not None else (self.parent.guarded.get(name),)
        if (name, "") in self.assigned or nodes == (None,):
            return False
        if plain_texts(piece.nodes) != plain_texts(node for node in nodes if node is not None):
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

    def _name_of(self, read: Reference, piece: Piece) -> tuple[str, int]:
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
            self._problem(at, what, ANOTHER_RELEASE)
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
        # The package offers each name of its modules once.
        is_offered = path == f"transformers.{name}" and theirs.startswith("transformers.")
        if theirs == path or is_offered:
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

    def _check_imports(self) -> None:
        for node in self.patch.file.tree.body:
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if not isinstance(node, ast.ImportFrom) or module.partition(".")[0] != "transformers":
                continue
            for alias in node.names:
                if not has_name(self.root, module, alias.name):
                    at = self.patch.file.source.at_node(alias)
                    what = f"imports {module}.{alias.name}, which this release does not have"
                    self._problem(at, what, ANOTHER_RELEASE)

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

    def _at(self, read: Reference) -> Location:
        return self.patch.file.source.at(read.line, read.column)

    def _problem(self, at: Location, what: str, hint: str) -> None:
        problem = Problem(at, "PG810", what, hint)
        if problem not in self.problems:
            self.problems.append(problem)


def plain_texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [plain_text(node) for node in nodes]


def _attributes(tree: ast.AST, use: type[ast.expr_context], owner: str = "self") -> Iterator[str]:
    """The attributes that code reads or sets; with an owner, those of `self` alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, use):
            if not owner or isinstance(node.value, ast.Name) and node.value.id == owner:
                yield node.attr


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


def absolute_module(node: ast.ImportFrom, module: str) -> str:
    above = module.split(".")[: -node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])
