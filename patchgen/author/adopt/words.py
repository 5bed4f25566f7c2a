"""Code of the fork and of its parent in the names of a modular file.

What the fork took over from the parent is the parent's, `llama.LlamaRMSNorm`; what the modular file
defines is called by its name; what the fork imports, the modular file imports.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.align.drafts import is_made_up
from patchgen.author.align.file import File, absolute_module
from patchgen.compiler.plan.bindings import KEPT
from patchgen.syntax.blocks import first_line

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class Names:
    """The meanings of names; `declared` are the definitions of the modular file."""

    forked: ForkedModel
    declared: frozenset[str]

    @property
    def parent(self) -> File:
        """The parent, with the fork's names for what is paired."""
        return self.forked.parent

    @property
    def fork(self) -> File:
        """The fork."""
        return self.forked.fork

    def of_fork(self, name: str) -> str:
        """A global name of the fork's code as the modular file writes it."""
        if name in self.fork.definitions:
            if name in self.declared or name not in self.forked.pairs:
                return name
            return self.of_parents_own(name)
        known = name in self.fork.imports or name in self.fork.guarded or name in BUILTINS
        return (
            f"{self.forked.alias}.{name}" if not known and name in self.parent.definitions else name
        )

    def of_parents_own(self, name: str) -> str:
        """The parent's definition that the fork calls `name`, by way of the parent's module."""
        return f"{self.forked.alias}.{self.forked.pairs.get(name, name)}"

    def of_parent(self, name: str) -> str:
        """A global name of the parent's code as the modular file writes it."""
        if name in self.parent.definitions:
            return name if name in self.declared else self.of_parents_own(name)
        if name in self.forked.pairs.values():
            return name if self.renamed_alone else f"{self.forked.alias}.{name}"
        return name

    @property
    def renamed_alone(self) -> bool:
        """Whether the old names of classes that were renamed go on to be names of these."""
        return bool(self.forked.alone) and any(
            self.forked.pairs.get(n) == n for n in self.fork.classes
        )

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The fork's lines in the names of the modular file."""
        fork = self.fork
        lines = [line.rstrip("\n") for line in fork.source.lines]
        for reference in sorted(fork.plain_reads, key=lambda r: (r.line, r.column), reverse=True):
            new = self.of_fork(reference.name)
            if new == reference.name:
                continue
            raw = lines[reference.line - 1].encode()
            end = reference.column + len(reference.name.encode())
            if raw[reference.column : end] == reference.name.encode():
                changed = raw[: reference.column] + new.encode() + raw[end:]
                lines[reference.line - 1] = changed.decode()
        for node in ast.walk(fork.tree):
            # Those at the top are written anew, with the imports.
            if isinstance(node, ast.ImportFrom) and node.level and node.col_offset:
                line, before = lines[node.lineno - 1], f"{'.' * node.level}{node.module or ''}"
                if self.forked.is_own(node):
                    lines[node.lineno - 1] = f"{line}  {KEPT}"
                else:
                    full = absolute_module(node, self.forked.module)
                    lines[node.lineno - 1] = line.replace(before, full, 1)
        return tuple(lines)


@dataclass
class Words:
    """Writes pieces of code, and notes which names they read.

    `read` are those of the fork, as it calls them.
    """

    names: Names
    read: set[str] = field(default_factory=set)

    def statements(
        self,
        nodes: Sequence[ast.stmt],
        indent: int,
        known: frozenset[str] = frozenset(),
        skip: int = 0,
    ) -> list[str]:
        """Statements of the fork that stand together, with the comments above that are not `known`.

        Those that are made up, with `...` in them, are written from their trees.
        """
        if not nodes:
            return [" " * indent + "pass"]
        if any(map(is_made_up, nodes)):
            return [line for node in nodes for line in self._made_up(node, indent)]
        first, last = first_line(nodes[0]) + skip, nodes[-1].end_lineno or nodes[-1].lineno
        margin = len(self._text(nodes[0].lineno)) - len(self._text(nodes[0].lineno).lstrip())
        top = first
        while top > 1 and self._text(top - 1).lstrip().startswith("#"):
            top -= 1
        numbers = [n for n in range(top, first) if self._text(n).strip() not in known]
        numbers += range(first, last + 1)
        self.read |= self.names.fork.names_read(first, last)
        found = []
        for number in numbers:
            text = self.names.lines[number - 1]
            if number in self.names.fork.inside_strings:
                found.append(text)
            else:
                cut = min(margin, len(text) - len(text.lstrip()))
                found.append((" " * indent + text[cut:]).rstrip())
        begin = len(numbers) - (last + 1 - first)
        if found[begin].lstrip().startswith("elif "):
            found[begin] = found[begin].replace("elif ", "if ", 1)
        return found

    def _text(self, line: int) -> str:
        return self.names.fork.source.lines[line - 1]

    def _made_up(self, node: ast.stmt, indent: int) -> list[str]:
        return [" " * indent + line for line in self.fork_code(node).split("\n")]

    def fork_code(self, node: ast.AST) -> str:
        """A node of the fork, written from its tree."""
        reads = self.names.fork.globals_read
        self.read |= {n.id for n in _names(node) if (n.lineno, n.col_offset) in reads}
        return _unparsed(node, reads, self.names.of_fork)

    def parent_code(self, node: ast.AST) -> str:
        """A node of the parent, written from its tree."""
        reads = self.names.parent.globals_read
        for name in (n.id for n in _names(node) if (n.lineno, n.col_offset) in reads):
            names = self.names
            known = name in names.parent.imports or name in names.fork.imports
            if names.of_parent(name) == name and known:
                self.read.add(name)
        return _unparsed(node, reads, self.names.of_parent)


def _names(node: ast.AST) -> Iterable[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name) and hasattr(n, "lineno"))


class _Renamed(ast.NodeTransformer):
    def __init__(self, reads: frozenset[tuple[int, int]], say: Callable[[str], str]) -> None:
        self.reads, self.say = reads, say

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not hasattr(node, "lineno") or (node.lineno, node.col_offset) not in self.reads:
            return node
        value = ast.parse(self.say(node.id), mode="eval").body
        return ast.copy_location(value, node)


def _unparsed(node: ast.AST, reads: frozenset[tuple[int, int]], say: Callable[[str], str]) -> str:
    changed = _Renamed(reads, say).visit(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(changed))
