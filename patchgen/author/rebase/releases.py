"""The members of classes of one release of transformers, read as files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.author.align.file import Definition, File, Member, read_file
from patchgen.author.rebase.declared import absolute, resolve
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import make_source

_RELATIVE = re.compile(r"from\s+\.+[\w.]*\s+import")


@dataclass(frozen=True)
class Found:
    """A member with the file and the class that define it."""

    file: File
    owner: str
    member: Member


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
            return _with_whole_names(read_file(self.environment.source(module, Location(module))))
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

    def member(self, module: str, owner: str, name: str) -> Found | None:
        """A member of a class, its own or inherited; without an owner, a function of the module."""
        if not owner:
            found = self.definition(module, name)
            if found is None or found[1].kind != "def":
                return None
            return Found(found[0], "", Member(name, found[1].nodes))
        for file, definition in self.ancestry(module, owner):
            if name in definition.members:
                return Found(file, definition.name, definition.members[name])
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


def _with_whole_names(file: File) -> File:
    """The file with absolute imports, as outputs have them.

    from ...activations import ACT2FN    ->    from transformers.activations import ACT2FN
    """
    lines = list(file.source.lines)
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            line = lines[node.lineno - 1]
            new = f"from {absolute(file, node)} import"
            lines[node.lineno - 1] = _RELATIVE.sub(new, line, count=1)
    text = "".join(lines)
    return read_file(make_source(text, file.source.path, file.source.module))
