"""A fork and its parent: which definition corresponds to which, and whether a release fits.

A fork was made from one release.  Another one may lack a name that the fork imports, or may have
given a function other parameters.  Nothing of a release is imported to find out.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen import disk
from patchgen.author.align.file import File, absolute_module, read_file, with_whole_names
from patchgen.compiler.link.strings import find_words, rename_in_text
from patchgen.syntax.bound import names_in
from patchgen.syntax.same import is_documenting
from patchgen.syntax.text import make_source

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}

# With fewer of its classes called as in the parent, a fork is looked at as a model with names of
# its own.
_SAME_NAMES = 0.34
# With so much of its code in a class of another name, a class is that class renamed.
_SAME_CODE = 0.6


@dataclass(frozen=True)
class Renaming:
    """How the names of a fork differ from its parent's.

    For example, `LlamaMLP` is `InternLM2MLP`, `LlamaMLP_KIVI` or `FastLlamaMLP`.
    """

    old: str = ""
    new: str = ""
    behind: bool = False

    def original(self, name: str) -> str:
        """The parent's name for the fork's `name`."""
        if self.behind:
            return name.removesuffix(self.new)
        if self.new and name.startswith(self.new):
            return self.old + name.removeprefix(self.new)
        return name


@dataclass(frozen=True)
class ForkedModel:
    """A fork and the parent that it was made from.

    `parent` has the fork's names for what is in `pairs`.

    `module` is the parent's dotted name; `pairs` are names of the fork with those of the parent.
    `root` is the folder of the release; `alone` are classes that were renamed without the others.
    """

    parent: File
    fork: File
    module: str
    pairs: Mapping[str, str]
    title: str = ""
    root: Path | None = None
    alone: frozenset[str] = frozenset()

    @property
    def renames(self) -> bool:
        """Whether the fork is a model with names of its own."""
        return any(new != old and new not in self.alone for new, old in self.pairs.items())

    @property
    def follows(self) -> bool:
        """Whether the classes have their names, so that the output is the parent with changes."""
        return not self.renames and any(self.pairs.get(n) == n for n in self.fork.classes)

    def is_own(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import of the fork stays in the fork's own package.

        Three dots lead to the top of transformers, if that has such a module.
        """
        if isinstance(node, ast.Import):
            return False
        if node.level < 3:
            return node.level > 0
        if self.root is None:
            return False
        path = self.root.joinpath(*absolute_module(node, self.module).split("."))
        return not (path.is_dir() or path.with_suffix(".py").is_file())

    @cached_property
    def alias(self) -> str:
        """The name of the parent's module in the modular file."""
        last = self.module.rpartition(".")[2]
        short = last.removeprefix("modeling_")
        return last if short in names_in([self.fork.tree]) else short


def pair_with_parent(
    parent: File, fork: File, module: str, title: str = "", root: Path | None = None
) -> ForkedModel:
    """The fork beside `parent`, the file of `module` in the release at `root`."""
    renaming = rename_classes(parent.classes, fork.classes)
    pairs: dict[str, str] = {}
    for name, definition in fork.definitions.items():
        original = renaming.original(name)
        old = parent.definitions.get(original)
        # A function may have become a constant, but no class.
        if old is not None and (old.kind == "class") == (definition.kind == "class"):
            pairs[name] = original
    if renaming.new:
        _pair_constants(parent, fork, pairs)
    renamed = {old: new for new, old in pairs.items() if new != old}
    # Beside the parent's class under a new name, one with the old name is another class.
    pairs = {new: old for new, old in pairs.items() if renamed.get(old, new) == new}
    alone: dict[str, str] = {}
    if renaming.behind or not renaming.new:
        # In a model with names of its own, a class with another name is another class.
        alone = _pair_by_code(parent, fork, pairs)
    if renaming.behind:
        alone = renamed | alone
        renamed = {}
    pairs |= {new: old for old, new in alone.items()}
    said: set[str] = set()
    for node in ast.walk(fork.tree):
        if isinstance(node, ast.ImportFrom):
            said.add(ast.unparse(node))

    def is_said(node: ast.ImportFrom) -> bool:
        return node.col_offset > 0 and ast.unparse(node) in said

    parent = with_whole_names(parent, is_said)
    # Of classes that were renamed alone, the code of the parent goes on to mean its own.
    parent = _with_names(_renamed(parent, renamed), alone)
    return ForkedModel(parent, fork, module, pairs, title, root, frozenset(alone.values()))


def _pair_constants(parent: File, fork: File, pairs: dict[str, str]) -> None:
    """Pair constants of which only the first word differs: LLAMA_INPUTS, TOY_INPUTS.

    The converter gives constants no other names: those that code reads are the fork's own.
    """
    read = read_by_code(fork)
    by_tail: dict[str, list[str]] = defaultdict(list)
    for old in parent.definitions:
        by_tail[old.partition("_")[2]].append(old)
    for name, definition in fork.definitions.items():
        tail = name.partition("_")[2]
        if not tail or name in pairs or name in read or definition.kind != "assign":
            continue
        match by_tail[tail]:
            case [old] if old not in pairs.values():
                pairs[name] = old


def _pair_by_code(parent: File, fork: File, pairs: Mapping[str, str]) -> dict[str, str]:
    """What the fork calls classes of the parent, by their names or code, that have no pair."""
    there = {*pairs.values(), *fork.definitions}
    lines_of = {name: _lines(parent, name) for name in parent.classes if name not in there}
    renamed = {}
    for name in fork.classes:
        if name in pairs or not lines_of:
            continue
        mine = _lines(fork, name)
        shares: dict[str, float] = {}
        for old, theirs in lines_of.items():
            common = mine & theirs
            shares[old] = common.total() / max(theirs.total(), 1)
        named = [old for old in shares if name.endswith(old)]
        best = max(named or shares, key=lambda old: shares[old])
        has_its_code = mine.total() > 2 and shares[best] >= _SAME_CODE
        if named or has_its_code:
            renamed[best] = name
            del lines_of[best]
    return renamed


def _lines(file: File, name: str) -> Counter[str]:
    body = getattr(file.definitions[name].node, "body", [])
    return Counter(line for node in body for line in ast.unparse(node).split("\n"))


def rename_classes(parent: Sequence[str], fork: Sequence[str]) -> Renaming:
    """The renaming under which most classes are the parent's; none where names are the same."""
    same = len({*parent} & {*fork})
    if not fork or same / len(fork) >= _SAME_NAMES:
        return Renaming()
    votes: Counter[Renaming] = Counter()
    for name in fork:
        renamings = {_pair(old, name) for old in parent}
        for renaming in renamings:
            if renaming is not None:
                votes[renaming] += 1

    def weight(renaming: Renaming) -> tuple[int, int]:
        return votes[renaming], -len(renaming.old)

    best = max(votes, key=weight, default=Renaming())
    if votes[best] < 2 or votes[best] <= same:
        return Renaming()
    return best


def _pair(old: str, new: str) -> Renaming | None:
    """The renaming that makes `new` of `old`: another beginning, or an ending more."""
    if new == old:
        return None
    if new.startswith(old):
        return Renaming("", new.removeprefix(old), behind=True)
    if new.endswith(old) and old[0].isupper():
        return Renaming("", new.removesuffix(old))
    ending = os.path.commonprefix([old[::-1], new[::-1]])[::-1]
    stem = re.sub("^[^A-Z]*", "", ending)
    if not stem or {old, new} & {ending, stem}:
        return None
    return Renaming(old.removesuffix(stem), new.removesuffix(stem))


def _renamed(parent: File, names: Mapping[str, str]) -> File:
    """The parent with other names for classes, as the converter renames them."""
    if not names:
        return parent
    text = parent.source.text
    changes = rename_in_text(text, parent.tree, names, (), True)
    changed = {(change.line, change.start) for change in changes}
    line_starts = [0]
    for source_line in text.split("\n"):
        length = len(source_line.encode()) + 1
        line_starts.append(line_starts[-1] + length)
    kept: set[int] = set()  # strings that name no class for sure stay as they are
    for line, start, _, _ in find_words(text, names):
        if (line, start) not in changed:
            kept.add(line_starts[line - 1] + start)

    def rename(word: re.Match[bytes]) -> bytes:
        if word.start() in kept:
            return word[0]
        return names[word[0].decode()].encode()

    longest_first = sorted(names, key=len, reverse=True)
    either = "|".join(map(re.escape, longest_first))
    raw = re.sub(rf"\b(?:{either})\b".encode(), rename, text.encode())
    return read_file(make_source(raw.decode(), parent.source.path, parent.source.module))


def _with_names(parent: File, names: Mapping[str, str]) -> File:
    """The parent with other names for classes where these are defined."""
    if not names:
        return parent
    either = "|".join(map(re.escape, names))
    heads = re.compile(rf"^(class |def )({either})\b", re.MULTILINE)
    text = heads.sub(lambda head: head[1] + names[head[2]], parent.source.text)
    return read_file(make_source(text, parent.source.path, parent.source.module))


def read_by_code(file: File) -> set[str]:
    """The names that something reads beside documenting decorators."""
    names: set[str] = set()
    stack: list[ast.AST] = [file.tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        decorators = getattr(node, "decorator_list", ())
        stack += [
            child
            for child in ast.iter_child_nodes(node)
            if not (child in decorators and isinstance(child, ast.expr) and is_documenting(child))
        ]
    return names


def unbound(forked: ForkedModel) -> frozenset[str]:
    """The names that the fork reads and that neither it nor the parent binds."""
    fork = forked.fork
    parent = forked.parent
    bound = {*forked.pairs.values(), *BUILTINS}
    for file in (fork, parent):
        bound |= {*file.definitions, *file.imports, *file.guarded}
    return frozenset(r.name for r in fork.plain_reads) - bound


@lru_cache(maxsize=512)
def read_text(path: Path) -> str:
    """The text of a file of a release."""
    return disk.read_bytes(path).decode(errors="replace")
