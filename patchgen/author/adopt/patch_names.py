"""What a patch assigns in one file of transformers, what of the patch file that needs, and how the
fork calls it.

patch file                                parent                       fork
def rotate(x): ...                        def rotate(x): ...           rotate_patched
def forward(self, x):                                                  LlamaMLP.forward
    return rotate(silu(x))                silu is imported             silu

Each name means what it means to the patch: a helper that is called like another definition of the
parent gets another name.  What replaces a function or class stands beside it, and the code that
runs later reads that; what the module read while it was imported stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NoReturn

from patchgen.author.adopt.patch_file import (
    Assignment,
    Defined,
    Imported,
    Literal,
    Patch,
    Unknown,
    Value,
)
from patchgen.author.adopt.words import BUILTINS
from patchgen.author.align.file import Definition, File, absolute_module, defined_names
from patchgen.syntax.bound import bound_by
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.reads import Reference
from patchgen.syntax.same import Function, plain_text
from patchgen.syntax.scopes import references

ANOTHER_RELEASE = "name the release that the patch was written for: --release X"
_BEFORE = "write the class or function anew, without what it was before the patch"


class PatchNames:
    """The names of one patch in the fork of `parent`, the file of `module` in the release."""

    def __init__(self, patch: Patch, parent: File, module: str, root: Path) -> None:
        self.patch, self.file, self.root = patch, patch.file, root
        self.parent, self.module = parent, module
        self.notes: list[str] = []
        self.imports: dict[str, str] = {}
        is_listed = "__all__" in parent.definitions
        if patch.star is not None and (is_listed or patch.star.module != module):
            self.refuse(self.file.source.at_node(patch.star), "imports `*`", "name what it imports")

    def refuse(self, at: Location, what: str, hint: str) -> NoReturn:
        raise PatchgenError("PG810", at, what, hint)

    # What is assigned, and has an effect.

    @cached_property
    def assigned(self) -> dict[tuple[str, str], Assignment]:
        """The assignments by the name in the parent's module, and the attribute of that class."""
        found: dict[tuple[str, str], Assignment] = {}
        dead: list[tuple[Location, str]] = []
        for one in self.patch.assignments:
            module, names = find_target(one.path, self.root)
            if module != self.module:
                continue
            text, (name, attr) = ".".join(names), (*names, "")[:2]
            if len(names) > 2 or attr and name not in self.parent.classes:
                what = f"changes {text}, which is no class of {module} in this release"
                self.refuse(one.at, what, ANOTHER_RELEASE)
            if reason := self._no_effect(name, attr):
                dead.append((one.at, f"{text} has no effect: {reason}"))
                continue
            found[name, attr] = one
            if (name, "") in found and len([key for key in found if key[0] == name]) > 1:
                self.refuse(one.at, f"changes the replaced {name}", _BEFORE)
        if dead and not found:
            self.refuse(*dead[0], ANOTHER_RELEASE)
        self.notes += [f"{at}: {what}" for at, what in dead]
        return found

    def _no_effect(self, name: str, attr: str) -> str:
        """Why an assignment changes nothing; "" if it may change something."""
        if attr:
            trees = self.parent.tree, self.file.tree
            used = {word for tree in trees for word in attributes(tree, ast.Load, "")}
            has_it = attr in used or any(attr in one.members for one in self.lineage(name))
            is_dead = not has_it and not is_known_word(self.root, attr)
            return f"{name} has no {attr}, and nothing calls it" if is_dead else ""
        reads = [one for one in self.parent.plain_reads if one.name == name]
        if any(not one.eager for one in reads) or name in attributes(self.file.tree, ast.Load, ""):
            return ""
        when = " but while it is imported, before the patch" if reads else ""
        return f"nothing in the module reads {name}{when}"

    def lineage(self, name: str) -> list[Definition]:
        """A class of the parent and those of its bases that the file has."""
        definition = self.parent.definitions.get(name)
        if definition is None or not isinstance(definition.node, ast.ClassDef):
            return []
        bases = [ast.unparse(base) for base in definition.node.bases]
        return [definition, *(one for base in bases for one in self.lineage(base))]

    def unset(self) -> Iterator[str]:
        """The attributes that methods read and the classes of this release do not set."""
        for (name, _), node in self.methods.items():
            line = self.lineage(name)
            has = {member for one in line for member in one.members}
            has |= {other for owner, other in self.assigned if owner == name}
            for one in (node, *(definition.node for definition in line)):
                has |= {*attributes(one, ast.Store)}
            for word in sorted({*attributes(node, ast.Load)} - has):
                if not is_known_word(self.root, word):
                    at = self.file.source.at_node(node)
                    yield f"{at}: reads self.{word}, which {name} of this release does not set"

    # Which definitions of the patch file come along.

    @cached_property
    def methods(self) -> dict[tuple[str, str], Function]:
        """The functions that are assigned to classes."""
        return {
            key: one.value.node
            for key, one in self.assigned.items()
            if key[1] and isinstance(one.value, Defined) and isinstance(one.value.node, Function)
        }

    @cached_property
    def pieces(self) -> dict[str, tuple[ast.stmt, ...]]:
        """The other definitions that are needed, by name."""
        found: dict[str, tuple[ast.stmt, ...]] = {}
        others = [one.value for key, one in self.assigned.items() if key not in self.methods]
        waiting = [one.node.name for one in others if isinstance(one, Defined)]
        waiting += [read.name for node in self.methods.values() for read in reads_of([node])]
        while waiting:
            name = waiting.pop()
            guard, value = self.file.guarded.get(name), self._value(name)
            path = value.path if isinstance(value, Imported) else ""
            is_import = name in self.file.imports or path.startswith(f"{self.module}.")
            if name in found or value is None or path and is_import and guard is None:
                continue
            if isinstance(value, Unknown) and name in self.patch.touched:
                at = self.file.source.at_node(self.patch.touched[name])
                self.refuse(at, f"may change {name}, which the patch reads", "make it a constant")
            body = self.file.tree.body
            nodes = tuple(one for one in body if name in defined_names(one) or one is guard)
            if not nodes and not path:
                what = f"reads {name}, which is bound in a way that is not read"
                self.refuse(self.file.source.at_node(body[0]), what, "make it a constant")
            if nodes:
                found[name] = nodes
                waiting += [read.name for read in reads_of(nodes)]
        return found

    # What each name is called in the fork.

    @cached_property
    def names(self) -> dict[str, str]:
        """What the pieces of the patch file are called in the fork."""
        taken = {n for n in self.pieces if self.parents_path(n) and not self._is_parents(n)}
        return {name: f"{name}_patched" if name in taken else name for name in self.pieces}

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The parent's names for which the code of the model reads another one."""
        return {name: self.text_of(one) for (name, attr), one in self.assigned.items() if not attr}

    def text_of(self, one: Assignment) -> str:
        """A value that is assigned, as code of the fork."""
        match one.value:
            case Imported(path) if path.startswith(f"{self.module}."):
                inner = path.removeprefix(f"{self.module}.")
                if "." in inner:
                    self.refuse(one.at, f"takes {inner} for another", _BEFORE)
                return inner
            case Imported(path):
                return self._imported(path.rpartition(".")[2], path)
            case Defined(node):
                return self.names[node.name]
            case Literal(value):
                return repr(value)

    def _is_parents(self, name: str, inside: tuple[str, ...] = ()) -> bool:
        """Whether the patch file means by a name what the parent means."""
        nodes, theirs = self.pieces.get(name), self._parents_node(name)
        if name in inside or nodes is None:
            path = self.parents_path(name)
            return name in inside or not path or self._value(name) == Imported(path)
        if (name, "") in self.assigned or theirs is None or len(nodes) > 1:
            return False
        is_equal = plain_text(nodes[0]) == plain_text(theirs)
        return is_equal and all(self._is_parents(r.name, (*inside, name)) for r in reads_of(nodes))

    def _parents_node(self, name: str) -> ast.stmt | None:
        there = self.parent.definitions.get(name)
        return there.node if there is not None else self.parent.guarded.get(name)

    def parents_path(self, name: str) -> str:
        """The dotted name of what the parent imports as `name`, or defines; "" without one."""
        if name not in self.parent.imports:
            return f"{self.module}.{name}" if self._parents_node(name) is not None else ""
        node, alias = self.parent.imports[name]
        if isinstance(node, ast.Import):
            return alias.name if alias.asname else name
        return f"{absolute_module(node, self.module)}.{alias.name}"

    def _value(self, name: str) -> Value | None:
        path = self.parents_path(name) if self.patch.star and name[0] != "_" else ""
        return self.patch.scope.get(name, Imported(path) if path else None)

    def _of_parent(self, read: Reference) -> tuple[tuple[str, ...], int]:
        """The name in the parent's module that a read means, and how many attributes say so.

        `LlamaMLP` has none, and is what the parent defines; `modeling_llama.LlamaMLP` has one, and
        is what stands in the module by then.  A name of a member has less than none.
        """
        value = self._value(read.name)
        dotted = ".".join([value.path, *read.attributes]) if isinstance(value, Imported) else ""
        if not dotted.startswith(f"{self.module}."):
            return (), 0
        names = tuple(dotted.removeprefix(f"{self.module}.").split("."))
        return names, len(read.attributes) - len(names) + 1

    def name_of(self, read: Reference) -> tuple[str, int]:
        """What the fork calls a name of the patch, and how many attributes that takes in."""
        name, value, at = read.name, self._value(read.name), self.at(read)
        names, taken = self._of_parent(read)
        if names and not self.parents_path(names[0]):
            what = f"reads {names[0]}, which {self.module} of this release does not have"
            self.refuse(at, what, ANOTHER_RELEASE)
        if names:
            # In the fork there is no other method than the new one.
            if taken < 0 or read.eager and names[:2] in self.assigned:
                self.refuse(at, f"keeps what {'.'.join(names)} was before the patch", _BEFORE)
            is_new = taken and not read.eager
            return self.renamed.get(names[0], names[0]) if is_new else names[0], taken
        if name in self.pieces:
            return self.names[name], 0
        if isinstance(value, Imported):
            return self._imported(name, value.path), 0
        if value is None and name not in BUILTINS:
            what = f"reads {name}, which nothing in this file binds"
            if not self.parents_path(name):
                self.refuse(at, what, "import it")
            if not any(f"{what};" in note for note in self.notes):
                self.notes.append(f"{at}: {what}; the model's file does")
        return name, 0

    def _imported(self, name: str, path: str) -> str:
        """The name of an import in the fork, which is written where the parent lacks it."""
        theirs, (package, _, last) = self.parents_path(name), path.rpartition(".")
        if theirs == path or path == f"transformers.{name}" and theirs.startswith("transformers."):
            return name  # The package offers each name of its modules once.
        called = f"{name}_patched" if theirs else name
        said = f"from {package} import {last}" if package else f"import {path}"
        self.imports[called] = said if called == last else f"{said} as {called}"
        # `import torch` and `import torch.utils.checkpoint` bind one name.
        nodes = [node for node in self.file.tree.body if isinstance(node, ast.Import)]
        mine = [one for node in nodes for one in node.names if bound_by(one) == name]
        if called == path and mine:
            self.imports[called] = "\n".join(ast.unparse(ast.Import([one])) for one in mine)
        return called

    def at(self, read: Reference) -> Location:
        return self.file.source.at(read.line, read.column)


def reads_of(nodes: Iterable[ast.stmt]) -> tuple[Reference, ...]:
    return tuple(read for read in references(nodes) if not read.quoted)


def attributes(tree: ast.AST, use: type[ast.expr_context], owner: str = "self") -> Iterator[str]:
    """The attributes that code reads or sets; with an owner, those of `self` alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, use):
            if not owner or isinstance(node.value, ast.Name) and node.value.id == owner:
                yield node.attr


def find_target(path: str, root: Path) -> tuple[str, tuple[str, ...]]:
    """The module of the release that a dotted name begins with, and the names in it."""
    parts = path.split(".")
    for number in range(len(parts) - 1, 0, -1):
        if root.joinpath(*parts[:number]).with_suffix(".py").is_file():
            return ".".join(parts[:number]), tuple(parts[number:])
    return "", ()


@lru_cache(maxsize=64)
def is_known_word(root: Path, word: str) -> bool:
    """Whether general modules of a release, or PyTorch's own protocol, name an attribute."""
    if word in ("forward", "training", "train", "eval") or word.startswith("__"):
        return True
    matches = re.compile(rf"\b{re.escape(word)}\b")
    folders = ("", "generation", "integrations", "loss", "utils", "quantizers")
    files = [one for folder in folders for one in (root / "transformers" / folder).glob("*.py")]
    return any(matches.search(path.read_text(encoding="utf-8", errors="replace")) for path in files)
