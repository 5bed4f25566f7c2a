"""The parts of patchgen as text: what they define, and the words that each mixin brings to a class.

The files of `patchgen.parts` are read and not imported, since they import torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from patchgen.author.align.file import Definition, File, read_file
from patchgen.syntax.bound import local_names
from patchgen.syntax.same import Function
from patchgen.syntax.text import read_source

PARTS = "patchgen.parts"
_FOLDER = Path(__file__).resolve().parents[2] / "parts"
_NO_WORDS = frozenset({"self", "cls", "super"})


@dataclass(frozen=True)
class Mixin:
    """A class of a part, the module to import it from, and the mixins that it derives from."""

    name: str
    module: str
    words: frozenset[str]
    above: frozenset[str]


@dataclass(frozen=True)
class Parts:
    """All parts: definitions by name with the modules to import them from, and the mixins."""

    definitions: Mapping[str, Sequence[tuple[str, Definition]]]
    mixins: Mapping[str, Mixin]


@lru_cache(maxsize=1)
def read_parts() -> Parts:
    """The parts of this patchgen."""
    files = {_module_of(path): _read(path) for path in sorted(_FOLDER.rglob("*.py"))}
    definitions: dict[str, list[tuple[str, Definition]]] = {}
    for module, file in files.items():
        for name, definition in file.definitions.items():
            if name != "__all__":
                home = _public_home(name, module, files)
                definitions.setdefault(name, []).append((home, definition))
    mixins = {}
    for name, found in definitions.items():
        for home, definition in found:
            if definition.kind == "class" and (lineage := _lineage(definition, definitions)):
                words = frozenset(word for one in lineage for word in _words_brought(one))
                above = frozenset(one.name for one in lineage) - {name}
                mixins[name] = Mixin(name, home, words, above)
    return Parts(definitions, {name: one for name, one in mixins.items() if one.words})


def words_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names, attributes and functions that occur in some code."""
    return frozenset(_words(nodes)) - _NO_WORDS


def _read(path: Path) -> File:
    return read_file(read_source(path, _module_of(path), path.name))


def _module_of(path: Path) -> str:
    inner = path.relative_to(_FOLDER).with_suffix("").parts
    return ".".join([PARTS, *(name for name in inner if name != "__init__")])


def _public_home(name: str, module: str, files: Mapping[str, File]) -> str:
    """The package that offers what `module` defines as `name`, else that module."""
    package = module.rpartition(".")[0]
    offers = package in files and name in files[package].imports
    return package if offers else module


def _lineage(
    definition: Definition, known: Mapping[str, Sequence[tuple[str, Definition]]]
) -> list[Definition]:
    """A mixin and those that it derives from; nothing for a class with a base outside the parts."""
    assert isinstance(definition.node, ast.ClassDef)
    found = [definition]
    for base in definition.node.bases:
        if not isinstance(base, ast.Name) or base.id not in known:
            return []
        above = _lineage(known[base.id][0][1], known)
        if not above:
            return []
        found += above
    return found


def _words_brought(mixin: Definition) -> Iterator[str]:
    """The words that a class has from a mixin and from nowhere else."""
    for name, member in mixin.members.items():
        method = member.method
        if method is None:
            yield name
        elif any(_is_edit(decorator) for decorator in method.decorator_list):
            yield from _words_of_edit(method)
        else:
            yield from _words_of_method(method)


def _is_edit(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "edit"


def _words_of_edit(method: Function) -> frozenset[str]:
    """The words below `with new` that neither `with old` has nor the parent's code fills in."""
    known: set[str] = {arg.arg for arg in (*method.args.args, *method.args.kwonlyargs)}
    words: set[str] = set()
    for node in ast.walk(method):
        if isinstance(node, ast.With):
            side = ast.unparse(node.items[0].context_expr)
            (known if side == "old" else words).update(words_of(node.body))
    return frozenset(words - known)


def _words_of_method(method: Function) -> frozenset[str]:
    """The words of a method that stay when it is merged: no names of local variables."""
    above = {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "super()"
    }
    return words_of(method.body) - local_names(method) - above


def _words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
