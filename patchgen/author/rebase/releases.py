"""One release of transformers: its classes and members, and what a modular file gives on it."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.align.file import Definition, File, read_file, with_whole_names
from patchgen.author.rebase.code import Code, member_of, replacing, with_cuts
from patchgen.author.rebase.declared import Declared, resolve
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment, make_environment
from patchgen.syntax.text import make_source


@dataclass
class Tree:
    """One release, as an environment in which its modules are found."""

    environment: Environment
    _files: dict[str, File | None] = field(default_factory=dict)

    def file(self, module: str) -> File | None:
        """The file of a module; None where the release has none, or none that can be read."""
        if module not in self._files:
            self._files[module] = self._read(module)
        return self._files[module]

    def _read(self, module: str) -> File | None:
        if self.environment.path(module) is None:
            return None
        try:
            return with_whole_names(read_file(self.environment.source(module, Location(module))))
        except PatchgenError:
            return None

    def definition(self, module: str, name: str) -> tuple[File, Definition] | None:
        """A definition, followed through the imports of modules that pass it on."""
        for _ in range(8):
            file = self.file(module)
            if file is None:
                return None
            if name in file.definitions:
                return file, file.definitions[name]
            origin = resolve(file, ast.Name(name))
            if origin is None:
                return None
            module, name = origin
        return None

    def member(self, module: str, owner: str, name: str) -> tuple[File, str, Code] | None:
        """A member with the file and the class that have it; without an owner, a function."""
        definition = self.definition(module, name) if not owner else None
        places = [definition] if definition is not None else self.ancestry(module, owner)
        for file, there in places:
            member = member_of(file, there.name if owner else "", name)
            if member is not None:
                return file, there.name if owner else "", member
        return None

    def ancestry(self, module: str, owner: str) -> Iterator[tuple[File, Definition]]:
        """A class and what it derives from, as far as the release defines it, nearest first."""
        waiting, seen = [(module, owner)], set()
        while waiting:
            place = waiting.pop(0)
            found = self.definition(*place)
            if place in seen or found is None or found[1].kind != "class":
                continue
            seen.add(place)
            file, definition = found
            yield file, definition
            assert isinstance(definition.node, ast.ClassDef)
            for base in definition.node.bases:
                if isinstance(base, ast.Name) and base.id in file.definitions:
                    waiting.append((file.source.module, base.id))
                elif (origin := resolve(file, base)) is not None:
                    waiting.append(origin)

    def parent_of(self, change: Declared, output: File) -> tuple[File, Code] | None:
        """The member that a change is about, in the names of the output, and its file."""
        found = self.member(change.module, change.parent, change.member)
        if found is None:
            return None
        file, owner, _ = found
        if file.source.module == change.module and change.owner != change.parent:
            file = pair_with_parent(file, output, change.module).parent
        members = (member_of(file, name, change.member) for name in (change.owner, owner))
        return next(((file, one) for one in members if one is not None), None)


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
            self._known[text, release] = self._flatten(text, release)
        return self._known[text, release]

    def _flatten(self, text: str, release: Path | None) -> Given:
        with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
            home = Path(folder).resolve()
            path = home / "modular" / self.name
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8", newline="\n")
            result = flatten(path, make_environment(home, release, self.roots), self.settings)
        try:
            files = {f.name: read_file(make_source(f.text, f.name)) for f in result.files}
        except PatchgenError as error:
            return Given({}, (*result.problems, error.problem))
        return Given(files, tuple(result.problems))


def without_bases(text: str, is_gone: Callable[[str, str], bool]) -> str:
    """A modular file whose classes derive from `object` where their parent is gone.

    So the rest of it can be proved.  The missing parent is reported anyway.
    """
    file = read_file(make_source(text, "modular.py"))
    classes = (d.node for d in file.definitions.values() if isinstance(d.node, ast.ClassDef))
    gone = [
        base
        for node in classes
        for base in node.bases
        if (parent := resolve(file, base)) is not None and is_gone(*parent)
    ]
    return with_cuts(text, [replacing(base, "object") for base in gone])
