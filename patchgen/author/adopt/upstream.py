"""A draft of a modular file, in the dialect of transformers, for a model that has none.

Each class is a subclass of the model's class that it repeats most of; what no other model has stands as it is.  The
`transformers` profile converts the draft, and what does not come out as in the model is said at more length.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen.author.adopt.overrides import Text, derive
from patchgen.author.adopt.proof import Proof, compare
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.sources import Source, find_sources
from patchgen.author.adopt.work import code_lines
from patchgen.author.align.file import Definition, File, read_file, said
from patchgen.author.align.same import plain_text
from patchgen.compiler.emit.format import format_modular
from patchgen.compiler.settings import Settings
from patchgen.errors import Location, PatchgenError, Problem, problems_of
from patchgen.syntax.blocks import first_line
from patchgen.syntax.text import make_source, read_source
from patchgen.upstream.convert import convert

_MOST_TURNS = 14
_MOST_AVOIDED = 3


@dataclass(frozen=True)
class Doubts:
    """What has to be said at more length: definitions to be declared, classes and methods to be written out.

    `avoided` are classes with a module from which they cannot be derived.
    """

    declared: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    spelled: frozenset[tuple[str, str]] = frozenset()
    avoided: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Draft:
    """The text of a modular file for the model `path`, and what its conversion gave."""

    path: Path
    text: str
    proof: Proof
    lines: int
    model_lines: int
    parents: tuple[str, ...]

    @property
    def share(self) -> float:
        """How long the draft is, as a share of the model's code."""
        return self.lines / max(self.model_lines, 1)

    def data(self) -> dict[str, Any]:
        """All of it for programs."""
        return {
            "model": self.path.stem.removeprefix("modeling_"),
            "parents": list(self.parents),
            "regenerates": self.proof.holds,
            "lines": self.lines,
            "model_lines": self.model_lines,
            "share": round(self.share, 3),
            "differ": list(self.proof.differ),
            "missing": list(self.proof.missing),
            "problems": [str(problem) for problem in self.proof.problems],
            "declaration": self.text,
        }

    def report(self) -> str:
        """What came of it, for people."""
        parents = ", ".join(module.partition(".")[0] for module in self.parents)
        equal = "regenerates the model" if self.proof.holds else "does not regenerate the model"
        lines = [
            f"{self.path.name}: {equal}; {self.lines} lines of code for {self.model_lines} "
            f"({self.share:.0%}), from {parents}"
        ]
        lines += [f"  differs: {name}" for name in self.proof.differ]
        lines += [f"  missing: {name}" for name in self.proof.missing]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.proof.problems)])


def draft_model(path: Path, release: Release, settings: Settings) -> Draft:
    """The draft for the modeling file at `path` in the unpacked `release`.

    Raises PatchgenError PG806 where the model has a modular file, or no other model has a class of it.
    """
    modular = path.with_name(path.name.replace("modeling_", "modular_", 1))
    shown = "/".join(path.parts[-4:])
    if modular.is_file():
        what = "has a modular file already"
        raise PatchgenError("PG806", Location(shown), what, f"edit {modular.name}")
    model = read_file(read_source(path, f"{path.parent.name}.{path.stem}", shown))
    sources = find_sources(model, path, release)
    if not any(name in source.renamed.definitions for source in sources for name in model.classes):
        what = "repeats no class of another model"
        raise PatchgenError("PG806", Location(shown), what, "there is nothing to derive from")
    return _improve(_Writer(model, sources), modular, path, settings)


def _improve(writer: _Writer, modular: Path, path: Path, settings: Settings) -> Draft:
    """The first draft that gives the model, else the one that comes nearest."""
    doubts = Doubts()
    best: Draft | None = None
    for _ in range(_MOST_TURNS):
        written = writer.write(doubts)
        text = format_modular(written.text, settings)
        proof = _convert(text, modular, writer.model)
        total = code_lines(writer.model.source.text)
        made = Draft(path, text, proof, code_lines(text), total, written.parents)
        if proof.holds:
            return made
        if best is None or _left(proof) <= _left(best.proof):
            best = made
        wider = _widen(doubts, made, written, writer)
        if wider == doubts:
            break
        doubts = wider
    assert best is not None
    return best


def _left(proof: Proof) -> tuple[bool, int]:
    return not proof.output, len(proof.differ) + len(proof.missing)


def _convert(text: str, modular: Path, model: File) -> Proof:
    """What the converter makes of `text` in the place of `modular`."""

    def read(path: Path) -> str | None:
        if path == modular:
            return text
        return path.read_text(encoding="utf-8") if path.is_file() else None

    try:
        outputs = convert(modular, read)
        found = next((one.text for one in outputs if one.kind == "modeling"), "")
        return compare(found, model) if found else Proof("", ())
    except PatchgenError as error:
        return Proof("", problems_of(error))
    except SyntaxError as error:
        problem = Problem(Location(str(modular), error.lineno or 1), "PG006", str(error))
        return Proof("", (problem,))


@dataclass(frozen=True)
class _Written:
    text: str
    parents: tuple[str, ...]
    derived: frozenset[str]
    declared: frozenset[str]


@dataclass
class _Writer:
    """Writes drafts of one model; `sources` are the files that it may repeat."""

    model: File
    sources: Sequence[Source]
    _best: dict[str, tuple[Source, Definition]] = field(default_factory=dict)

    @cached_property
    def _fits(self) -> Mapping[str, Sequence[tuple[Source, Definition]]]:
        return {name: self._ranked(name, one) for name, one in self.model.definitions.items()}

    def _ranked(self, name: str, new: Definition) -> list[tuple[Source, Definition]]:
        """The sources that have the same function, or over which a class is shorter, the best first."""
        fits: list[tuple[int, int, Source, Definition]] = []
        for number, source in enumerate(self.sources):
            old = source.renamed.definitions.get(name)
            if old is None or old.kind != new.kind:
                continue
            if said(old) == said(new):
                fits.append((0, number, source, old))
            elif new.kind == "class":
                lines = derive(new, old, name, Text(self.model), frozenset())
                if lines is not None and len(lines) < self.model.lines(new.nodes):
                    fits.append((len(lines), number, source, old))
        return [(source, old) for _, _, source, old in sorted(fits, key=lambda one: one[:2])]

    def source_of(self, name: str) -> str:
        """The module from which a class was derived last."""
        return self._best[name][0].module

    def write(self, doubts: Doubts) -> _Written:
        """The draft: classes first derived, then everything that they read."""
        self._best = {
            name: fits[0]
            for name, every in self._fits.items()
            if (fits := [one for one in every if (name, one[0].module) not in doubts.avoided])
        }
        declared = {
            name
            for name, one in self.model.definitions.items()
            if name in doubts.declared | doubts.whole
            or name == "__all__"
            or (one.kind == "class" and not self._comes_along(name))
        }
        declared |= {name for name in self._own_functions() if name not in self._best}
        while True:
            text = Text(self.model)
            imports: dict[str, set[str]] = {}
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
                return self._joined(parts, text, imports, derived, declared)
            declared |= more

    def _comes_along(self, name: str) -> bool:
        """Whether a class is its source's and another class reads it, which then brings it."""
        found = self._best.get(name)
        model = self.model.definitions
        if found is None or said(found[1]) != said(model[name]):
            return False
        return any(name in reads for other, reads in self._reads.items() if other != name)

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
        """A class as a subclass of its source's; None where writing it out is as short."""
        found = self._best.get(new.name)
        if new.kind != "class" or found is None or new.name in doubts.whole:
            return None
        source, old = found
        own = source.names[old.name]
        attempt = Text(self.model)
        lines = derive(new, old, own, attempt, doubts.spelled)
        if lines is None or len(lines) >= self.model.lines(new.nodes):
            return None
        text.read |= attempt.read
        imports.setdefault(source.module, set()).add(own)
        return lines

    def _whole(self, name: str, text: Text) -> list[str]:
        nodes = dict.fromkeys(self.model.definitions[name].nodes)
        return [line for node in nodes for line in text.of(node)]

    def _lacking(
        self, text: Text, declared: set[str], doubts: Doubts, imports: dict[str, set[str]]
    ) -> set[str]:
        """What the declared code reads: imported from the source that has the same, else to be declared."""
        found: set[str] = set()
        for name in text.read & set(self.model.definitions) - declared:
            source = self._best.get(name)
            is_function = self.model.definitions[name].kind == "def"
            if is_function and source is not None and name not in doubts.declared:
                module, own = source[0].module, source[0].names[name]
                if own == name:
                    imports.setdefault(module, set()).add(name)
                    continue
            found.add(name)
        return found

    def _joined(
        self,
        parts: Sequence[str],
        text: Text,
        imports: Mapping[str, set[str]],
        derived: set[str],
        declared: set[str],
    ) -> _Written:
        head = [*_imports(self.model, text.read), *_imports_of(imports)]
        guards = _guards(self.model, text)
        head = [*head, *_imports(self.model, text.read)] if guards else head
        top = "\n".join(dict.fromkeys(head))
        body = "\n\n\n".join([*guards, *parts])
        shown = f'{_header(self.model)}"""PyTorch {self.model.source.module} model."""\n\n'
        parents = tuple(sorted(imports))
        full = f"{shown}{top}\n\n\n{body}\n"
        return _Written(full, parents, frozenset(derived), frozenset(declared))


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


def _widen(doubts: Doubts, made: Draft, written: _Written, writer: _Writer) -> Doubts:
    """What to say at more length, by what the converter made of a draft."""
    proof = made.proof
    if not proof.output:
        names = _blamed(proof.problems, made.text) & written.derived
        return replace(doubts, whole=doubts.whole | (names or written.derived))
    output = read_file(make_source(proof.output, "output.py")).definitions
    doubts = replace(doubts, declared=doubts.declared | {*proof.missing})
    for name in proof.differ:
        if name not in written.declared:
            doubts = replace(doubts, declared=doubts.declared | {name})
        elif name in written.derived:
            members = _differing(output[name], writer.model.definitions[name])
            doubts = _without(doubts, name, members, writer.source_of(name))
    return doubts


def _without(doubts: Doubts, name: str, members: Iterable[str], source: str) -> Doubts:
    """That these members of a class are to be written out, or that its source will not do."""
    fresh = {(name, member) for member in members} - doubts.spelled
    if fresh:
        return replace(doubts, spelled=doubts.spelled | fresh)
    avoided = doubts.avoided | {(name, source)}
    if sum(one == name for one, _ in avoided) >= _MOST_AVOIDED:
        return replace(doubts, whole=doubts.whole | {name})
    spelled = frozenset(one for one in doubts.spelled if one[0] != name)
    return replace(doubts, spelled=spelled, avoided=avoided)


def _blamed(problems: Iterable[Problem], text: str) -> set[str]:
    """The classes of a draft that the converter names in its problems."""
    found = set()
    for node in ast.parse(text).body:
        for problem in problems:
            within = first_line(node) <= problem.at.line <= (node.end_lineno or 0)
            if isinstance(node, ast.ClassDef) and (within or node.name in problem.what):
                found.add(node.name)
    return found


def _differing(made: Definition, model: Definition) -> set[str]:
    """The members of a class that did not come out as in the model."""
    if made.kind != "class" or model.kind != "class":
        return set()
    mine = {name: [*map(plain_text, one.nodes)] for name, one in made.members.items()}
    theirs = {name: [*map(plain_text, one.nodes)] for name, one in model.members.items()}
    return {name for name in mine.keys() | theirs if mine.get(name) != theirs.get(name)}
