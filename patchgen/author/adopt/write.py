"""Write the declaration of a fork in the fork's order, with imports and header."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.adopt.classes import DeclaredDefinition, Doubts, declare_definition, edit_words
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.proof import differing, own_statements
from patchgen.author.adopt.words import Names, Words
from patchgen.author.align.file import Definition, import_of
from patchgen.compiler.plan.bindings import KEPT
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.trees import names_within

_BANNER = re.compile(r"do not edit|automatically generated", re.IGNORECASE)


@dataclass(frozen=True)
class Declaration:
    """A modular file: its text, not yet formatted, and the declaration of each definition."""

    text: str
    definitions: tuple[DeclaredDefinition, ...]


def declare(forked: ForkedModel, doubts: Doubts) -> Declaration:
    """The declaration of a fork; whatever is in doubt is written in full."""
    return _Writer(forked, doubts).declaration()


@dataclass
class _Writer:
    forked: ForkedModel
    doubts: Doubts

    def declaration(self) -> Declaration:
        forked = self.forked
        order = list(forked.fork.definitions)
        declared = self._declared()
        statements = own_statements(forked)
        while True:
            bound = frozenset(declared) | {*bound_names(statements)}
            words = Words(Names(forked, bound, forked.alias))
            parts = []
            for name in declared:
                old = forked.parent.definitions[name] if name in forked.pairs else None
                new = forked.fork.definitions[name]
                parts.append(declare_definition(new, old, words, self.doubts))
            texts = {node.lineno: words.statements([node], 0) for node in statements}
            more = self._guards_read(words, statements)
            # What the declared code reads of the fork's own, and that is not declared.
            lacking = words.read & forked.fork.classes_and_functions.keys()
            lacking -= {*forked.pairs, *declared}
            if not lacking and not more:
                # A class that derives from the parent's says whose variant it is.
                is_anchored = any(part.state in ("edited", "named") for part in parts)
                unsaid = [name for name in self._paired if name not in declared]
                if is_anchored or not unsaid:
                    text = self._text(parts, texts, statements, words)
                    return Declaration(text, tuple(parts))
                lacking = {unsaid[-1]}
            statements += more
            declared = sorted({*declared, *lacking}, key=order.index)

    @cached_property
    def _paired(self) -> list[str]:
        return [name for name in self.forked.fork.classes if name in self.forked.pairs]

    def _declared(self) -> list[str]:
        """What differs from the parent, and what has to be named for the rest to come along."""
        forked = self.forked
        fork = forked.fork
        wanted = {*differing(forked), *self.doubts.definitions, *forked.alone}
        if forked.renames:
            # Nothing of the fork would bring along a class that nothing else names.
            wanted.update({*self._paired} - self._used())
        # What derives from a class of transformers becomes one class with it.
        for name in wanted.intersection(fork.classes):
            bases = _bases(fork.definitions[name])
            there: list[str] | None = None
            if name in self._paired and name not in self.doubts.whole:
                old = forked.parent.definitions.get(name)
                there = _bases(old) if old is not None else None
            if there != bases:
                wanted.update({*bases} & {*self._paired})
        # Without a class that has a parent, the file would have no parent.
        if wanted.isdisjoint(self._paired):
            wanted.update(self._paired[-1:])
        return sorted(wanted, key=list(fork.definitions).index)

    def _used(self) -> set[str]:
        """The names that classes of the fork read, and functions that these name."""
        definitions = self.forked.fork.definitions
        used: set[str] = set()
        users = [definition for definition in definitions.values() if definition.kind == "class"]
        for user in users:  # which grow meanwhile
            read = _reads(user)
            used |= read
            for name in read & definitions.keys():
                definition = definitions[name]
                if definition.kind == "def" and definition not in users:
                    users.append(definition)
        return used

    def _guards_read(self, words: Words, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The fork's statements that a declared one needs, and that are not written yet.

        A model with names of its own does not follow the parent, which has them.
        """
        fork = self.forked.fork
        needed: set[ast.stmt] = set()
        for name in words.read:
            if words.names.of_fork(name) != name:
                continue
            definition = fork.definitions.get(name)
            if definition and definition.kind in ("assign", "other"):
                needed.update(definition.nodes)
            elif name in fork.guarded and name not in fork.imports:
                needed.add(fork.guarded[name])
        needed.difference_update(statements)
        return [node for node in fork.tree.body if node in needed]

    # The text

    def _text(
        self,
        parts: Iterable[DeclaredDefinition],
        texts: dict[int, list[str]],
        statements: Sequence[ast.stmt],
        words: Words,
    ) -> str:
        forked = self.forked
        package, _, module = forked.module.rpartition(".")
        alias = f" as {forked.alias}" if forked.alias != module else ""
        parts = list(parts)
        definitions = forked.fork.definitions
        # Imports under a condition stand below the others, but for one that has to follow a
        # statement or a definition: `FAST = False`, then `try: from fast import act; FAST = True`.
        written = [*statements, *(definitions[part.name].node for part in parts)]
        guards = []
        bound: set[str] = set()
        for node in sorted(written, key=lambda node: node.lineno):
            is_guard = isinstance(node, ast.If | ast.Try)
            if is_guard and bound.isdisjoint(names_in([node])):
                guards.append("\n".join(texts.pop(node.lineno)))
            else:
                bound.update(bound_names([node]))
        guards += self._guards_of_parent(words)
        places: dict[int, Sequence[str]] = {}
        for part in parts:
            node = definitions[part.name].node
            places[node.lineno] = part.lines
            if part.name in forked.alone and words.names.renamed_alone:
                # The parent's code, which the output follows, calls it so.
                places[node.end_lineno or 0] = [f"{forked.pairs[part.name]} = {part.name}"]
        places |= texts
        body = "\n\n\n".join("\n".join(places[line]).rstrip() for line in sorted(places))
        imports = [*self._imports(words), f"from {package} import {module}{alias}"]
        if "@edit(" in body:
            imports.append(f"from patchgen.edits import {', '.join(edit_words(body))}")
        below = "\n\n".join(["\n".join(imports), *guards])
        return f'{self._header()}"""{forked.title}"""\n\n{below}\n\n\n{body}\n'

    def _guards_of_parent(self, words: Words) -> list[str]:
        """The parent's guarded imports of names that a new model reads and does not import.

        A fork has such names from `from transformers.models.llama.modeling_llama import *`.
        """
        fork = self.forked.fork
        parent = self.forked.parent
        if self.forked.follows:
            return []
        bound = {*bound_names(fork.tree.body), *fork.imports, *fork.guarded, *parent.imports}
        nodes: dict[ast.stmt, None] = {}
        for name in sorted(words.read - bound):
            if name in parent.guarded:
                nodes[parent.guarded[name]] = None
        return [words.parent_code(node) for node in nodes]

    def _header(self) -> str:
        """The comments at the top of the fork: its licence, its authors, where it came from."""
        top: list[str] = []
        for line in self.forked.fork.source.lines:
            if not line.startswith("#") and line.strip():
                break
            top.append(line)
        # A banner that forbids to edit is about the file that it was copied with.
        blocks = re.split(r"(?<=\n)(?=\s*\n)", "".join(top))
        text = "".join(block for block in blocks if not _BANNER.search(block)).strip("\n")
        return text + "\n\n" if text else ""

    def _imports(self, words: Words) -> list[str]:
        """The fork's imports of what the declared code reads, and all of its own package."""
        forked = self.forked
        fork = forked.fork
        parent = forked.parent
        module = forked.module
        used = {reference.name for reference in fork.reads}
        defined = {*fork.guarded, *fork.definitions}
        own = {name for name, (node, _) in fork.imports.items() if forked.is_own(node)}
        lines: dict[str, None] = {}
        kept: dict[str, list[str]] = defaultdict(list)  # imports of the fork's own package
        for name in sorted(words.read | (own & used)):
            if words.names.of_fork(name) != name:
                continue
            if name in own:
                node, alias = fork.imports[name]
                assert isinstance(node, ast.ImportFrom)
                package = "." * node.level + (node.module or "")
                kept[package].append(ast.unparse(alias))
            elif name in fork.imports:
                lines[import_of(*fork.imports[name], module)] = None
            elif name in parent.imports and name not in defined:
                lines[import_of(*parent.imports[name], module)] = None
        for package, names in kept.items():
            listed = ", ".join(names)
            lines[f"from {package} import {listed}  {KEPT}"] = None
        return list(lines)


def _bases(definition: Definition) -> list[str]:
    return [ast.unparse(base) for base in getattr(definition.node, "bases", [])]


def _reads(definition: Definition) -> set[str]:
    names: set[str] = set()
    for node in definition.nodes:
        names.update(name.id for name in names_within(node))
    return names - {definition.name}
