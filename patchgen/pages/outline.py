"""Say of each line of a file what it says, and in which definition it stands."""

from __future__ import annotations

import ast
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.syntax.blocks import first_line
from patchgen.syntax.trees import Function

_TELLING = 40  # characters
_HEADS = ("def ", "class ", "async def ", "@")


@dataclass(frozen=True, slots=True)
class Outline:
    """The lines of a file, by number.

    `says` has the text of a line without indentation; of one that imports, the names, since modules
    are spelled absolutely in one file and not in another.  `owners` are the names of the innermost
    definitions around lines.  `definitions` are the lines of functions and classes, the innermost
    first, and `classes` those of the heads of classes.  `by_owner` and `by_text` find a line by
    what it says.
    """

    says: Mapping[int, tuple[str, ...]]
    owners: Mapping[int, str]
    definitions: tuple[tuple[int, int], ...]
    classes: Mapping[str, int]
    by_owner: Mapping[tuple[str, str], int]
    by_text: Mapping[str, int]


@functools.lru_cache(maxsize=16)  # an output is looked at in several ways
def read_outline(text: str) -> Outline:
    """The outline of `text`, which is Python."""
    tree = ast.parse(text)
    says: dict[int, tuple[str, ...]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        said = line.strip()
        if said:
            says[number] = (said,)
    owners: dict[int, str] = {}
    definitions = []

    def visit(node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = owner
            if isinstance(child, ast.ClassDef | Function):
                inner = f"{owner}.{child.name}" if owner else child.name
                first = first_line(child)
                last = child.end_lineno or child.lineno
                definitions.append((first, last))
                owners.update(dict.fromkeys(range(first, last + 1), inner))
            elif isinstance(child, ast.Import | ast.ImportFrom):
                _note_imports(child, says)
            visit(child, inner)

    visit(tree, "")
    by_owner: dict[tuple[str, str], int] = {}
    by_text: dict[str, int] = {}
    often = Counter(itertools.chain.from_iterable(says.values()))
    for number, words in says.items():
        owner = owners.get(number, "")
        for word in words:
            by_owner.setdefault((owner, word), number)
            # A line in several places says nothing about where another came from, nor does what
            # any class may have: `def __init__(self, config):`, `@auto_docstring`, `x = None`.
            is_telling = len(word) > _TELLING and not word.startswith(_HEADS)
            if (is_telling or not owner) and often[word] == 1:
                by_text[word] = number
    definitions.sort(key=lambda lines: lines[1] - lines[0])
    classes = {node.name: node.lineno for node in tree.body if isinstance(node, ast.ClassDef)}
    return Outline(says, owners, tuple(definitions), classes, by_owner, by_text)


def _note_imports(node: ast.Import | ast.ImportFrom, says: dict[int, tuple[str, ...]]) -> None:
    """The first and the last line of an import in brackets belong to its first and last name."""
    names: dict[int, list[str]] = defaultdict(list)
    for alias in node.names:
        first = alias.lineno
        last = alias.end_lineno or first
        if alias is node.names[0]:
            first = node.lineno
        if alias is node.names[-1]:
            last = node.end_lineno or first
        bound = alias.asname or alias.name
        for number in range(first, last + 1):
            names[number].append(f"import {bound}")
    for number, imports in names.items():
        says[number] = tuple(imports)
