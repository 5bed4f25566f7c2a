"""What a modular file declares, what one release of transformers has, and what the two give.

class LlamaMLP(llama.LlamaMLP):          transformers.models.llama.modeling_llama.LlamaMLP:
    @edit("forward")                     an edit of `forward`,
    def clamp(self, gate): ...
    def extra_repr(self): ...            an override of `extra_repr`, if the parent has one
"""

from __future__ import annotations

import ast
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from patchgen.author.adopt.forked import ForkedModel, pair_with_parent
from patchgen.author.align.file import (
    Definition,
    File,
    Member,
    member_names,
    read_file,
    replacing,
    with_cuts,
    with_whole_names,
)
from patchgen.author.modular_text import flatten_text
from patchgen.author.rebase.code import Code, member_of
from patchgen.author.resolve import Resolver
from patchgen.compiler.settings import Settings
from patchgen.facts.modules import MODELS
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Function

Kind = Literal["edit", "override", "attribute"]


@dataclass(frozen=True, eq=False)
class Declared:
    """A member of a class of the modular file that changes `member` of its parent `module.parent`.

    `nodes` are its statements: all edits of one method belong together.  A function at the top
    level has no `owner`.  `is_whole`: the class is written out, and takes the place of the
    parent's.
    """

    owner: str
    member: str
    kind: Kind
    nodes: tuple[ast.stmt, ...]
    module: str
    parent: str
    is_whole: bool = False

    @property
    def name(self) -> str:
        """The member with its class."""
        return f"{self.owner}.{self.member}" if self.owner else self.member


def declared_changes(modular: File, tree: Tree) -> Iterator[Declared]:
    """Every edit, and every member that may override one of the parent's, in order.

    A function or class without a parent takes the place of the one of its name, if there is one.
    `tree` is the release that the file was written for.
    """
    parents: dict[str, tuple[str, str] | None] = {}
    for name, definition in modular.definitions.items():
        parents[name] = None
        bases = getattr(definition.node, "bases", ())
        for base in reversed(bases):
            meaning = tree.names.meaning(modular, base)
            if meaning is not None and meaning[0].startswith(f"{MODELS}."):
                parents[name] = meaning
    modules = [parent[0] for parent in parents.values() if parent is not None]
    most_named = max(modules, key=modules.count, default="")
    for name, parent in parents.items():
        node = modular.definitions[name].node
        if parent is not None:
            module, base = parent
        else:
            module = most_named or tree.names.replaced_in(modular, name)
            base = name
        if not module:
            continue
        if isinstance(node, Function):
            yield Declared("", name, "override", (node,), module, "", is_whole=True)
        if isinstance(node, ast.ClassDef):
            for (member, kind), nodes in _changes_in(node, modular, tree).items():
                yield Declared(name, member, kind, tuple(nodes), module, base, parent is None)


def _changes_in(
    node: ast.ClassDef, modular: File, tree: Tree
) -> Mapping[tuple[str, Kind], list[ast.stmt]]:
    """The statements of a class by the member that they change, and how."""
    by_member: dict[tuple[str, Kind], list[ast.stmt]] = defaultdict(list)
    for statement in node.body:
        method = edited_method(modular, statement, tree)
        if method is not None:
            by_member[method, "edit"].append(statement)
            continue
        kind: Kind = "override" if isinstance(statement, Function) else "attribute"
        for name in member_names(statement):
            by_member[name, kind].append(statement)
    return by_member


def edited_method(modular: File, node: ast.stmt, tree: Tree) -> str | None:
    """The method that a function decorated with `@edit("method")` edits; None for anything else."""
    if not isinstance(node, Function):
        return None
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=func, args=[ast.Constant(value=str(method))]):
                if tree.names.meaning(modular, func) == ("patchgen.edits", "edit"):
                    return method
    return None


class Parent(NamedTuple):
    """A member of a parent, beside the output; a function has no `owner`."""

    forked: ForkedModel
    owner: str
    code: Code

    def member(self, name: str, file: File | None = None) -> Member:
        """The member in the parent's file, or in another one like it."""
        definition = (file or self.forked.parent).definitions[self.owner or name]
        return definition.members[name] if self.owner else Member(name, definition.nodes)


@dataclass
class Tree:
    """One release, as an environment in which its modules are found."""

    environment: Environment
    _files: dict[str, File | None] = field(default_factory=dict)

    @cached_property
    def names(self) -> Resolver:
        """What names mean in the release."""
        return Resolver(self.environment)

    def file(self, module: str) -> File | None:
        """The file of a module; None where the release has none, or none that can be read."""
        if module not in self._files:
            self._files[module] = None
            if self.environment.path(module) is not None:
                with contextlib.suppress(PatchgenError):
                    source = self.environment.source(module, Location(module))
                    self._files[module] = with_whole_names(read_file(source))
        return self._files[module]

    def definition(self, module: str, name: str) -> tuple[File, Definition] | None:
        """A definition, followed through the imports of modules that pass it on."""
        home, name = self.names.follow(module, name)
        file = self.file(home)
        if file is None or name not in file.definitions:
            return None
        return file, file.definitions[name]

    def member(self, module: str, owner: str, name: str) -> tuple[File, str, Code] | None:
        """A member with the file and the class that have it; without an owner, a function."""
        definition = self.definition(module, name) if not owner else None
        places = [definition] if definition is not None else self.ancestry(module, owner)
        for file, there in places:
            home = there.name if owner else ""
            member = member_of(file, home, name)
            if member is not None:
                return file, home, member
        return None

    def ancestry(self, module: str, owner: str) -> Iterator[tuple[File, Definition]]:
        """A class and what it derives from, as far as the release defines it, nearest first."""
        waiting = [(module, owner)]
        seen = set()
        while waiting:
            parent = waiting.pop(0)
            entry = self.definition(*parent)
            if parent in seen or entry is None or entry[1].kind != "class":
                continue
            seen.add(parent)
            file, definition = entry
            yield file, definition
            assert isinstance(definition.node, ast.ClassDef)
            for base in definition.node.bases:
                origin = self.names.meaning(file, base)
                if origin is not None:
                    waiting.append(origin)

    def parent_of(self, change: Declared, output: File) -> Parent | None:
        """The member that a change is about, in the names of the output."""
        entry = self.member(change.module, change.parent, change.member)
        if entry is None:
            return None
        file, owner, _ = entry
        forked = ForkedModel(file, output, change.module, {})
        if file.source.module == change.module and change.owner != change.parent:
            forked = pair_with_parent(file, output, change.module)
        for name in (change.owner, owner):
            code = member_of(forked.parent, name, change.member)
            if code is not None:
                return Parent(forked, name, code)
        return None


# What a modular file gives


@dataclass(frozen=True)
class Given:
    """The outputs of a modular file by their names, or its problems."""

    outputs: Mapping[str, File]
    problems: tuple[Problem, ...]

    def file_of(self, module: str) -> File | None:
        """The output that is made from `module` of transformers: modeling, configuration, ..."""
        kind = module.rpartition(".")[2].partition("_")[0]
        return next((file for name, file in self.outputs.items() if name.startswith(kind)), None)

    def member(self, change: Declared) -> Code | None:
        """The member of a change."""
        file = self.file_of(change.module)
        return member_of(file, change.owner, change.member) if file is not None else None


@dataclass(frozen=True)
class Prover:
    """Flattens texts of the modular file `name`; `roots` are where its own project has modules.

    What a text gives on a release is worked out once: a rebase asks again and again.
    """

    name: str
    roots: tuple[Path, ...]
    settings: Settings
    _known: dict[tuple[str, Path | None], Given] = field(
        default_factory=dict, repr=False, compare=False
    )

    def flatten(self, text: str, release: Path | None) -> Given:
        """What `text` gives on the release whose folder is `release`, else on the installed one."""
        if (text, release) not in self._known:
            texts, problems = flatten_text(text, self.name, release, self.settings, self.roots)
            files = {name: read_file(make_source(flat, name)) for name, flat in texts.items()}
            self._known[text, release] = Given(files, problems)
        return self._known[text, release]


def without_bases(text: str, tree: Tree) -> str:
    """A modular file whose classes derive from `object` where their parent is gone.

    So the rest of it can be proved.  The missing parent is reported anyway.
    """
    file = read_file(make_source(text, "modular.py"))
    cuts = []
    for definition in file.definitions.values():
        for base in getattr(definition.node, "bases", ()):
            parent = tree.names.meaning(file, base)
            if parent is not None and tree.file(parent[0]) and tree.definition(*parent) is None:
                cuts.append(replacing(base, "object"))
    return with_cuts(text, cuts)
