"""A modular file with some of its members written anew.

@edit("forward")                         @edit("forward")
def cap(self, x):                        def cap(self, x):
    with old: self.act(x)          ->        with old: self.act(x, scale=1)
    with new: self.act(cap(x))               with new: self.act(cap(x), scale=1)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.adopt.classes import Doubts, declare_member
from patchgen.author.adopt.edits import declare_edits
from patchgen.author.adopt.words import Names, Words
from patchgen.author.align.file import File, Member, read_file
from patchgen.author.rebase.declared import Declared, absolute, resolve
from patchgen.author.rebase.kept_edits import with_known_edits
from patchgen.author.rebase.unused_imports import without_unused_imports
from patchgen.compiler.emit.format import format_texts
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function
from patchgen.syntax.text import make_source

_EDIT_WORDS = ("edit", "new", "old")
_EMPTY_CLASS = re.compile(r"after class definition on line (\d+)")


@dataclass(frozen=True)
class Rewritten:
    """The new lines of a declared change, at the margin of a class, and the imports for them."""

    change: Declared
    lines: tuple[str, ...]
    imports: tuple[str, ...]


def rewrite(
    change: Declared, modular: File, ours: File, theirs: File, merged: str, settings: Settings
) -> Rewritten | None:
    """The declaration of a merged member; None if it cannot be declared.

    `merged` is the text of the member, `theirs` the new parent's file.
    """
    owner = _owner(theirs, change)
    fork = _with_member(theirs, owner, change.member, merged)
    if fork is None:
        return None
    alias = _alias(modular, change.module)
    pairs = {name: name for name in theirs.definitions}
    names = Names(theirs, fork, alias, pairs, frozenset(modular.definitions))
    words = Words(names)
    old, new = member_of(theirs, owner, change.member), member_of(fork, owner, change.member)
    if new is None:
        return None
    if change.is_whole:
        indent = 4 if change.owner else 0
        lines: list[str] | None = words.statements(new.nodes, indent)
    else:
        taken = {n for n in _member_names(modular, change.owner) if n != change.member}
        lines = None
        if change.kind == "edit" and old is not None and new.method and old.method:
            lines = declare_edits(new.method, old.method, words, set(taken))
        lines = lines or declare_member(new, old, change.owner, words, Doubts(), taken)
    if not lines:
        return None
    lines = _formatted(lines, settings) if change.owner else lines
    kept = with_known_edits(lines, change, modular, old, alias)
    imports = [
        *_imports(words.read, modular, ours, theirs),
        *_own_imports(alias, kept, modular, change),
    ]
    return Rewritten(change, tuple(kept), tuple(imports))


def _owner(theirs: File, change: Declared) -> str:
    """The class of the new parent's file, in its own or the variant's names; "" for a function."""
    return change.owner if change.owner in theirs.definitions else change.parent


def _member_names(modular: File, owner: str) -> Iterable[str]:
    node = modular.definitions[owner].node
    assert isinstance(node, ast.ClassDef)
    return [n.name for n in node.body if isinstance(n, Function)]


def _with_member(theirs: File, owner: str, name: str, merged: str) -> File | None:
    """The new parent's file with another text for one member."""
    member = member_of(theirs, owner, name)
    if member is None:
        return None
    nodes = member.nodes
    lines = [line.rstrip("\n") for line in theirs.source.lines]
    first, last = first_line(nodes[0]), nodes[-1].end_lineno or 0
    lines[first - 1 : last] = merged.rstrip("\n").split("\n")
    text = "\n".join(lines) + "\n"
    return read_file(make_source(text, theirs.source.path, theirs.source.module))


def _alias(modular: File, module: str) -> str:
    """What the modular file calls the parent's module, or may call it."""
    package, _, last = module.rpartition(".")
    for name, (node, imported) in modular.imports.items():
        if isinstance(node, ast.ImportFrom):
            if f"{absolute(modular, node)}.{imported.name}" == module:
                return name
        elif imported.name == module and imported.asname:
            return name
    return last


def _formatted(lines: Sequence[str], settings: Settings) -> list[str]:
    """Members of a class, formatted."""
    text = "class _:\n" + "\n".join(lines) + "\n"
    return format_texts({"member.py": text}, settings)["member.py"].rstrip("\n").split("\n")[1:]


# Imports


def _imports(read: Iterable[str], modular: File, ours: File, theirs: File) -> Iterable[str]:
    """Imports of what new lines read and the modular file does not have."""
    for name in sorted(read):
        if name in modular.imports or name in modular.definitions or name in modular.guarded:
            continue
        for file in (ours, theirs):
            if name in file.imports and name not in theirs.definitions:
                yield _import(file, name)
                break


def _import(file: File, name: str) -> str:
    node, alias = file.imports[name]
    as_name = f" as {alias.asname}" if alias.asname else ""
    if isinstance(node, ast.ImportFrom):
        return f"from {absolute(file, node)} import {alias.name}{as_name}"
    return f"import {alias.name}{as_name}"


def _own_imports(
    alias: str, lines: Sequence[str], modular: File, change: Declared
) -> Iterable[str]:
    """The parent's module, and the words of edits."""
    text = "\n".join(lines)
    if alias not in modular.imports and f"{alias}." in text:
        package, _, module = change.module.rpartition(".")
        yield f"from {package} import {module}" + (f" as {alias}" if alias != module else "")
    has_words = any(
        resolve(modular, ast.Name(name)) == ("patchgen.edits", name) for name in _EDIT_WORDS
    )
    if "@edit(" in text and not has_words:
        yield f"from patchgen.edits import {', '.join(_EDIT_WORDS)}"


# The file


def replaced(modular: File, changes: Mapping[Declared, Rewritten | None]) -> str:
    """The modular file with other lines for some changes; None takes a change out of it."""
    lines = [line.rstrip("\n") for line in modular.source.lines]
    cuts: list[tuple[int, int, list[str]]] = []
    for change, made in changes.items():
        for number, node in enumerate(change.nodes):
            new = list(made.lines) if made is not None and number == 0 else []
            first = first_line(node)
            while not new and not lines[first - 2].strip():
                first -= 1
            cuts.append((first, node.end_lineno or 0, new))
    for first, last, new in sorted(cuts, reverse=True):
        lines[first - 1 : last] = new
    wanted = {i for made in changes.values() if made is not None for i in made.imports}
    lines = _with_imports(lines, modular, sorted(wanted))
    return without_unused_imports(_with_passes("\n".join(lines) + "\n"), modular.tree)


def _with_imports(lines: list[str], modular: File, imports: Sequence[str]) -> list[str]:
    tops = [n for n in modular.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    # Imports stand above the first class, whose lines may have moved; those above have not.
    place = tops[-1].end_lineno or 0 if tops else 0
    return [*lines[:place], *imports, *lines[place:]]


def _with_passes(text: str) -> str:
    """`text` with `pass` in classes that nothing is left of."""
    lines = text.split("\n")
    while True:
        try:
            ast.parse("\n".join(lines))
        except IndentationError as error:
            empty = _EMPTY_CLASS.search(error.msg)
            if empty is None:
                raise
            place = int(empty[1])
            while not lines[place - 1].partition("#")[0].rstrip().endswith(":"):
                place += 1
            lines.insert(place, "    pass")
            continue
        return "\n".join(lines)


def as_override(change: Declared) -> Declared:
    """An edit as a method that is written out, to `rewrite` it so."""
    return replace(change, kind="override", is_whole=True)


def source_of(file: File, member: Member) -> str:
    """The lines of a member, with its comments."""
    lines = file.source.lines
    return "".join("".join(lines[first_line(n) - 1 : n.end_lineno or 0]) for n in member.nodes)


def member_of(file: File, owner: str, name: str) -> Member | None:
    """A member that a file's own class has; without an owner, a function."""
    definition = file.definitions.get(owner or name)
    if definition is None or definition.kind != ("class" if owner else "def"):
        return None
    return definition.members.get(name) if owner else Member(name, definition.nodes)
