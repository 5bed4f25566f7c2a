"""Write a draft in the dialect of transformers: each class derived from another model's, or whole.

model                                 draft
class NemotronMLP(nn.Module): ...     class NemotronMLP(LlamaMLP):
                                          def __init__(self, config):
                                              super().__init__(config)
                                              del self.gate_proj
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from patchgen.author.adopt.choice import Classes, Option
from patchgen.author.adopt.cover import Outline, outline
from patchgen.author.adopt.layout import code_length
from patchgen.author.adopt.overrides import derive
from patchgen.author.adopt.repeated import Text
from patchgen.author.adopt.sources import Source
from patchgen.author.align.file import Definition, File, plain_definition
from patchgen.syntax.blocks import first_line

_MOST_CHOICES = 2
# `class NemotronMLP(LlamaMLP):` and `pass`.
_PASSED = 2


# A class, what it derives from and under which name, and the methods to be written out.
_Key = tuple[str, int, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Doubts:
    """What has to be written at greater length.

    `imported` are functions to import from the source that has them, where others have another of
    that name.  `declared` are definitions, `whole` classes and `spelled` methods to be written out.

    `avoided` are classes with a module from which they cannot be derived.
    """

    imported: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    spelled: frozenset[tuple[str, str]] = frozenset()
    avoided: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Fit:
    """A definition of `source`, and the lines that the model's takes over it; none if it is it."""

    length: int
    source: Source
    old: Definition

    @property
    def base(self) -> tuple[str, str]:
        """The module and what the definition is called there."""
        return self.source.module, self.source.names[self.old.name]


@dataclass(frozen=True)
class Written:
    text: str
    parents: tuple[str, ...]
    derived: frozenset[str]
    declared: frozenset[str]
    read: frozenset[str] = frozenset()


@dataclass
class Writer:
    """Writes drafts of one model; `sources` are the files that it may repeat."""

    model: File
    sources: Sequence[Source]
    _best: dict[str, Fit] = field(default_factory=dict)
    _brought: frozenset[str] = frozenset()
    _known: dict[_Key, tuple[list[str] | None, set[str]]] = field(default_factory=dict)

    @cached_property
    def _fits(self) -> Mapping[str, Sequence[Fit]]:
        return {name: self._ranked(name, one) for name, one in self.model.definitions.items()}

    def _ranked(self, name: str, new: Definition) -> list[Fit]:
        """The sources with the same function, or over which a class is shorter; the best first."""
        fits = []
        for source in self.sources:
            for old in source.candidates(name, self._outline):
                length = self._length(source.names[old.name], new, old)
                if length is not None:
                    fits.append(Fit(length, source, old))
        return sorted(fits, key=lambda one: one.length)

    @cached_property
    def _outline(self) -> Outline:
        spelling = self.sources[0].spelling
        return outline(self.model.source.text, spelling.cased, self.sources[0].lower)

    def _length(self, base: str, new: Definition, old: Definition) -> int | None:
        """The lines that `new` takes over `old`; None if as many as without."""
        if old.kind != new.kind:
            return None
        if plain_definition(old) == plain_definition(new):
            return 0
        if new.kind != "class":
            return None
        lines, _ = self._over(new, old, base, frozenset())
        return code_length(lines) if lines is not None else None

    def _over(
        self, new: Definition, old: Definition, base: str, spelled: frozenset[tuple[str, str]]
    ) -> tuple[list[str] | None, set[str]]:
        """A class as a subclass of `base` and what that reads; None if the whole is as short."""
        own = frozenset(one for one in spelled if one[0] == new.name)
        key = (new.name, id(old), base, own)
        if key not in self._known:
            text = Text(self.model)
            lines = derive(new, old, base, text, own)
            is_short = lines is not None and self._is_shorter(lines, new)
            self._known[key] = (lines if is_short else None, text.read)
        return self._known[key]

    def _is_shorter(self, lines: Sequence[str], new: Definition) -> bool:
        """Whether a class is shorter in these lines."""
        return code_length(lines) < self._whole_length(new.name)

    def _whole_length(self, name: str) -> int:
        return code_length(self._whole(name, Text(self.model)))

    def _chosen(self, doubts: Doubts, known: frozenset[str]) -> dict[str, Fit]:
        """The best source of each definition; of those with one file, the one as it is renamed."""
        fits = {
            name: [one for one in every if (name, one.source.module) not in doubts.avoided]
            for name, every in self._fits.items()
        }
        fits |= {name: [] for name in doubts.whole}
        declared = known | doubts.declared | doubts.whole
        while True:
            options = {name: self._options(name, fits[name]) for name in self.model.classes}
            classes = Classes(options, self._readers, declared)
            chosen = classes.choose()
            self._brought = classes.brought(chosen)
            there = self._renamed(chosen)
            before = fits
            # Of a file under several names, one is left.
            fits = {
                name: [one for one in every if there.get(one.base[0], one.source) is one.source]
                for name, every in fits.items()
            }
            if fits == before:
                break
        for name, option in chosen.items():
            fits[name] = [one for one in fits[name] if one.base == (option.module, option.base)]
        return {name: every[0] for name, every in fits.items() if every}

    def _options(self, name: str, fits: Sequence[Fit]) -> list[Option]:
        """The ways to declare a class, the shortest first."""
        options = [Option(one.length or _PASSED, *one.base, not one.length) for one in fits]
        shortest = {
            (one.module, one.base): one for one in sorted(options, key=_order, reverse=True)
        }
        return sorted([*shortest.values(), Option(self._whole_length(name))], key=_order)

    def _renamed(self, chosen: Mapping[str, Option]) -> dict[str, Source]:
        """Each file as the classes that derive from it rename it."""
        pairs: dict[str, list[tuple[str, str]]] = {}
        for name, option in chosen.items():
            if option.base and name not in self._brought:
                pairs.setdefault(option.module, []).append((name, option.base))
        return {
            module: _as_renamed([one for one in self.sources if one.module == module], names)
            for module, names in pairs.items()
        }

    def source_of(self, name: str) -> str:
        """The module from which a class was derived last."""
        return self._best[name].source.module

    def can_import(self, name: str) -> bool:
        """Whether a source has this function under this name."""
        best = self._best.get(name)
        is_function = self.model.definitions[name].kind == "def"
        return is_function and best is not None and best.source.names[name] == name

    def write(self, doubts: Doubts) -> Written:
        """The draft, with the bases for which it is shortest."""
        read: frozenset[str] = frozenset()
        written = self._written(doubts, read)
        # Which classes are read by what is written shows only when it is written.
        for _ in range(_MOST_CHOICES):
            if written.read <= read:
                break
            read |= written.read
            written = self._written(doubts, read)
        return written

    def _written(self, doubts: Doubts, known: frozenset[str]) -> Written:
        """The draft: classes first derived, then everything that they read.

        The bases are chosen as if the classes in `known` had to be declared, and no others.
        """
        self._best = self._chosen(doubts, known)
        declared = {
            name
            for name, one in self.model.definitions.items()
            if name in doubts.declared | doubts.whole
            or name == "__all__"
            or (one.kind == "class" and name not in self._brought)
        }
        declared |= {name for name in self._own_functions() if name not in self._best}
        while True:
            text = Text(self.model)
            imports: dict[str, set[str]] = {}
            for name in doubts.imported - declared:
                imports.setdefault(self._best[name].source.module, set()).add(name)
            parts = []
            derived = set()
            for name, definition in self.model.definitions.items():
                if name not in declared:
                    continue
                lines = self._derived(definition, doubts, text, imports)
                if lines is not None:
                    derived.add(name)
                parts.append("\n".join(lines if lines is not None else self._whole(name, text)))
            more = self._lacking(text, declared, doubts, imports)
            if not more:
                written = self._joined(parts, text, imports, derived, declared)
                return replace(written, read=frozenset(text.read & {*self.model.classes}))
            declared |= more

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[str]]:
        """The other classes that read a class."""
        return {
            name: [other for other, reads in self._reads.items() if name in reads and other != name]
            for name in self.model.classes
        }

    @cached_property
    def _reads(self) -> Mapping[str, set[str]]:
        """The global names that each class reads."""
        return {
            name: self.model.names_read(first_line(one.node), one.node.end_lineno or 0)
            for name, one in self.model.definitions.items()
            if one.kind == "class"
        }

    def _own_functions(self) -> Iterable[str]:
        return (name for name, one in self.model.definitions.items() if one.kind == "def")

    def _derived(
        self, new: Definition, doubts: Doubts, text: Text, imports: dict[str, set[str]]
    ) -> list[str] | None:
        """A class as a subclass of its source's; None if the whole class is as short."""
        found = self._best.get(new.name)
        if new.kind != "class" or found is None or new.name in doubts.whole:
            return None
        source, old = found.source, found.old
        own = source.names[old.name]
        lines, read = self._over(new, old, own, doubts.spelled)
        if lines is None:
            return None
        text.read |= read
        imports.setdefault(source.module, set()).add(own)
        return lines

    def _whole(self, name: str, text: Text) -> list[str]:
        nodes = dict.fromkeys(self.model.definitions[name].nodes)
        return [line for node in nodes for line in text.of(node)]

    def _lacking(
        self, text: Text, declared: set[str], doubts: Doubts, imports: dict[str, set[str]]
    ) -> set[str]:
        """The imports and definitions that the declared code reads.

        It is imported from the source that has the same, else to be declared.
        """
        found: set[str] = set()
        for name in text.read & set(self.model.definitions) - declared:
            if self.can_import(name) and name not in doubts.declared:
                imports.setdefault(self._best[name].source.module, set()).add(name)
            else:
                found.add(name)
        return found

    def _joined(
        self,
        parts: Sequence[str],
        text: Text,
        imports: Mapping[str, set[str]],
        derived: set[str],
        declared: set[str],
    ) -> Written:
        head = [*_imports(self.model, text.read), *_imports_of(imports)]
        guards = _guards(self.model, text)
        head = [*head, *_imports(self.model, text.read)] if guards else head
        top = "\n".join(dict.fromkeys(head))
        body = "\n\n\n".join([*guards, *parts])
        preamble = f'{_header(self.model)}"""PyTorch {self.model.source.module} model."""\n\n'
        parents = tuple(sorted(imports))
        full = f"{preamble}{top}\n\n\n{body}\n"
        return Written(full, parents, frozenset(derived), frozenset(declared))


def _order(option: Option) -> tuple[int, bool]:
    return option.lines, not option.is_same


def _as_renamed(sources: Sequence[Source], pairs: Sequence[tuple[str, str]]) -> Source:
    """Of one file under several names, the one that classes derived so bring about."""
    prefix = sources[0].spelling.prefix(pairs, sources[0].original.source.text)
    return next((one for one in sources if one.prefix == prefix), sources[0])


def _imports(model: File, read: Iterable[str]) -> list[str]:
    """The model's imports of the names that are read."""
    lines = []
    for name in sorted(read):
        if name not in model.imports:
            continue
        node, alias = model.imports[name]
        renamed = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            lines.append(f"from {module} import {alias.name}{renamed}")
        else:
            lines.append(f"import {alias.name}{renamed}")
    return lines


def _imports_of(imports: Mapping[str, set[str]]) -> list[str]:
    return [
        f"from ..{module} import {', '.join(sorted(imports[module]))}" for module in sorted(imports)
    ]


def _guards(model: File, text: Text) -> list[str]:
    """Imports under `if` and `try` of names that are read."""
    nodes = {model.guarded[name] for name in text.read if name in model.guarded}
    return ["\n".join(text.of(node)) for node in model.tree.body if node in nodes]


def _header(model: File) -> str:
    """The licence at the top of the model's file."""
    lines = []
    for line in model.source.lines:
        if not line.startswith("#"):
            break
        lines.append(line)
    return "".join(lines)
