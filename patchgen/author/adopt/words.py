"""Code of the fork and of its parent in the names of a modular file.

What the fork took over from the parent is the parent's, `llama.LlamaRMSNorm`; what the modular file
defines is called by its name; what the fork imports, the modular file imports.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from patchgen.author.adopt.forked import BUILTINS, ForkedModel
from patchgen.author.align.drafts import is_made_up
from patchgen.author.align.file import absolute_module, renaming, with_cuts
from patchgen.author.align.suites import exchanged
from patchgen.compiler.plan.bindings import KEPT
from patchgen.syntax.blocks import first_line
from patchgen.syntax.trees import names_within


@dataclass(frozen=True)
class Names:
    """The meanings of names; `declared` are the definitions of the modular file.

    `alias` is what that calls the parent's module.
    """

    forked: ForkedModel
    declared: frozenset[str]
    alias: str

    def of_fork(self, name: str) -> str:
        """A global name of the fork's code as the modular file writes it."""
        fork = self.forked.fork
        if name in fork.definitions:
            if name in self.declared or name not in self.forked.pairs:
                return name
            return self.of_parents_own(name)
        if name in fork.imports or name in fork.guarded or name in BUILTINS:
            return name
        if name in self.forked.parent.definitions:
            return f"{self.alias}.{name}"
        return name

    def of_parents_own(self, name: str) -> str:
        """The parent's definition that the fork calls `name`, by way of the parent's module."""
        return f"{self.alias}.{self.forked.pairs.get(name, name)}"

    def of_parent(self, name: str) -> str:
        """A global name of the parent's code as the modular file writes it."""
        if name in self.forked.parent.definitions:
            return name if name in self.declared else self.of_parents_own(name)
        if name in self.forked.pairs.values():
            return name if self.renamed_alone else f"{self.alias}.{name}"
        return name

    @property
    def renamed_alone(self) -> bool:
        """Whether the old names of classes that were renamed go on to be names of these."""
        return bool(self.forked.alone) and any(
            self.forked.pairs.get(n) == n for n in self.forked.fork.classes
        )

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The fork's lines in the names of the modular file."""
        fork = self.forked.fork
        pairs = ((read, self.of_fork(read.name)) for read in fork.plain_reads)
        lines = with_cuts(fork.source.text, renaming(fork.source.lines, pairs)).split("\n")
        for node in ast.walk(fork.tree):
            # Those at the top are written anew, with the imports.
            if not isinstance(node, ast.ImportFrom) or not node.level or not node.col_offset:
                continue
            number = node.lineno - 1
            if self.forked.is_own(node):
                lines[number] += f"  {KEPT}"
            else:
                relative = f"{'.' * node.level}{node.module or ''}"
                absolute = absolute_module(node, self.forked.module)
                lines[number] = lines[number].replace(relative, absolute, 1)
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
        comments: frozenset[str] = frozenset(),
    ) -> list[str]:
        """Statements of the fork that stand together, with the comments above that are not `known`.

        Those that are made up, with `...` in them, are written from their trees.
        """
        if not nodes:
            return [" " * indent + "pass"]
        if any(map(is_made_up, nodes)):
            texts = []
            for node in nodes:
                texts.extend(self.fork_code(node).split("\n"))
            return [" " * indent + line for line in texts]
        first = first_line(nodes[0])
        last = nodes[-1].end_lineno or nodes[-1].lineno
        margin = len(self._text(nodes[0].lineno)) - len(self._text(nodes[0].lineno).lstrip())
        top = first
        while top > 1 and self._text(top - 1).lstrip().startswith("#"):
            top -= 1
        numbers = [n for n in range(top, first) if self._text(n).strip() not in comments]
        numbers += range(first, last + 1)
        self.read |= self.names.forked.fork.names_read(first, last)
        lines = []
        for number in numbers:
            text = self.names.lines[number - 1]
            if number in self.names.forked.fork.inside_strings:
                lines.append(text)
            else:
                cut = min(margin, len(text) - len(text.lstrip()))
                lines.append((" " * indent + text[cut:]).rstrip())
        begin = len(numbers) - (last + 1 - first)
        if lines[begin].lstrip().startswith("elif "):
            lines[begin] = lines[begin].replace("elif ", "if ", 1)
        return lines

    def _text(self, line: int) -> str:
        return self.names.forked.fork.source.lines[line - 1]

    def fork_code(self, node: ast.AST) -> str:
        """A node of the fork, written from its tree."""
        names = self.names
        reads = names.forked.fork.globals_read
        self.read |= {n.id for n in names_within(node) if _place(n) in reads}
        return _renamed(node, reads, names.of_fork)

    def parent_code(self, node: ast.AST) -> str:
        """A node of the parent, written from its tree."""
        names = self.names
        fork = names.forked.fork
        parent = names.forked.parent
        reads = parent.globals_read
        imports = {*parent.imports, *fork.imports}
        for name in (n.id for n in names_within(node) if _place(n) in reads):
            if names.of_parent(name) == name and name in imports:
                self.read.add(name)
        return _renamed(node, reads, names.of_parent)


def _place(name: ast.Name) -> tuple[int, int]:
    """Where a name stands; nowhere if it is made up."""
    return getattr(name, "lineno", 0), getattr(name, "col_offset", 0)


def _renamed(node: ast.AST, reads: frozenset[tuple[int, int]], say: Callable[[str], str]) -> str:
    """A node as text, with the names that `say` gives for the global names in it."""
    named = (n for n in names_within(node) if _place(n) in reads)
    values: dict[ast.AST, ast.AST] = {
        name: ast.parse(say(name.id), mode="eval").body for name in named
    }
    return ast.unparse(values.get(node) or exchanged(node, values))
