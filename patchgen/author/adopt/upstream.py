"""A draft of a modular file, in the dialect of transformers, for a model that has none.

Each class is a subclass of the model's class that it repeats most of; what no other model has
stands as it is.  The `transformers` profile converts the draft, and what does not come out as in
the model is written at greater length.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgen.author.adopt.dialect import Doubts, Writer, Written
from patchgen.author.adopt.lineage import find_heirs, read_lineage
from patchgen.author.adopt.proof import Proof, compare
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.sources import find_sources
from patchgen.author.adopt.work import code_lines
from patchgen.author.align.file import Definition, File, read_file
from patchgen.compiler.emit.format import format_modular
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem, problems_of
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source, read_source
from patchgen.upstream.convert import convert

_MOST_ROUNDS = 14
_MOST_AVOIDED = 3
# A draft from models that do not derive from this one may be longer by this, or be at most so
# long a share of the model.
_LONGER, _SHORT = 1.1, 0.5


@dataclass(frozen=True)
class Draft:
    """The text of a modular file for the model `path`, and what its conversion gave.

    `unread` are functions of the model that none of its classes reads.  The dialect of transformers
    writes a function with the first class that reads it, and so leaves them out.

    `circular` are the parents whose modular files derive from the model: they would have to derive
    from another.
    """

    path: Path
    text: str
    proof: Proof
    lines: int
    model_lines: int
    parents: tuple[str, ...]
    unread: tuple[str, ...] = ()
    circular: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all that the model's classes read comes out as in the model."""
        proof = self.proof
        return bool(proof.output) and not proof.differ and {*proof.missing} <= {*self.unread}

    @property
    def share(self) -> float:
        """How long the draft is, as a share of the model's code."""
        return self.lines / max(self.model_lines, 1)

    def data(self) -> dict[str, Any]:
        """The report as data for JSON."""
        return {
            "model": self.path.stem.removeprefix("modeling_"),
            "parents": list(self.parents),
            "circular": list(self.circular),
            "regenerates": self.proof.holds,
            "lines": self.lines,
            "model_lines": self.model_lines,
            "share": round(self.share, 3),
            "differ": list(self.proof.differ),
            "missing": list(self.proof.missing),
            "unread": list(self.unread),
            "problems": [str(problem) for problem in self.proof.problems],
            "declaration": self.text,
        }

    def report(self) -> str:
        """The report as text."""
        parents = ", ".join(module.partition(".")[0] for module in self.parents)
        equal = "regenerates the model" if self.is_whole else "does not regenerate the model"
        if self.is_whole and not self.proof.holds:
            equal += " without functions that none of its classes reads"
        lines = [
            f"{self.path.name}: {equal}; {self.lines} lines of code for {self.model_lines} "
            f"({self.share:.0%}), from {parents}"
        ]
        lines += [f"  circular: {name} derives from this model" for name in self.circular]
        lines += [f"  differs: {name}" for name in self.proof.differ]
        lines += [f"  missing: {name}" for name in self.proof.missing]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.proof.problems)])


def draft_model(path: Path, release: Release, settings: Settings) -> Draft:
    """The draft for the modeling file at `path` in the unpacked `release`.

    Raises PatchgenError PG806 where the model has a modular file, or no other model has a class of
    it.
    """
    modular = path.with_name(path.name.replace("modeling_", "modular_", 1))
    display_path = "/".join(path.parts[-4:])
    if modular.is_file():
        what = "has a modular file already"
        raise PatchgenError("PG806", Location(display_path), what, f"edit {modular.name}")
    model = read_file(read_source(path, f"{path.parent.name}.{path.stem}", display_path))
    sources = find_sources(model, path, release)
    if not any(name in source.renamed.definitions for source in sources for name in model.classes):
        what = "repeats no class of another model"
        raise PatchgenError(
            "PG806", Location(display_path), what, "there is nothing to derive from"
        )
    made = _improve(Writer(model, sources), modular, path, settings)
    heirs = find_heirs(model.source.module, read_lineage(path.parent.parent))
    circular = tuple(module for module in made.parents if module in heirs)
    others = find_sources(model, path, release, heirs) if circular else ()
    if others:
        other = _improve(Writer(model, others), modular, path, settings)
        is_short = other.lines <= made.lines * _LONGER or other.share <= _SHORT
        if is_short and other.is_whole >= made.is_whole:
            return other
    return replace(made, circular=circular)


def _improve(writer: Writer, modular: Path, path: Path, settings: Settings) -> Draft:
    """The first draft that gives the model, else the one that comes nearest."""
    doubts = Doubts()
    best: Draft | None = None
    unread = _unread(writer.model)
    for _ in range(_MOST_ROUNDS):
        written = writer.write(doubts)
        text = format_modular(written.text, settings)
        proof = _convert(text, modular, writer.model)
        total = code_lines(writer.model.source.text)
        left_out = tuple(name for name in proof.missing if name in unread)
        made = Draft(path, text, proof, code_lines(text), total, written.parents, left_out)
        if made.is_whole:
            return made
        if best is None or _left(proof) <= _left(best.proof):
            best = made
        wider = _widen(doubts, made, written, writer)
        if wider == doubts:
            break
        doubts = wider
    assert best is not None
    return best


def _unread(model: File) -> frozenset[str]:
    """The functions of a model that none of its classes reads, nor what these read."""
    reads = {
        name: model.names_read(first_line(one.node), one.node.end_lineno or 0)
        for name, one in model.definitions.items()
    }
    reached: set[str] = set()
    left = [*model.classes]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += [one for one in reads[name] if one in reads]
    functions = {name for name, one in model.definitions.items() if one.kind == "def"}
    return frozenset(functions - reached)


def _left(proof: Proof) -> tuple[bool, int]:
    return not proof.output, len(proof.differ) + len(proof.missing)


def _convert(text: str, modular: Path, model: File) -> Proof:
    """The result of converting `text` as the file `modular`."""

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


def _widen(doubts: Doubts, made: Draft, written: Written, writer: Writer) -> Doubts:
    """What to write at greater length, by the converter's result for a draft."""
    proof = made.proof
    if not proof.output:
        names = _blamed(proof.problems, made.text) & written.derived
        return replace(doubts, whole=doubts.whole | (names or written.derived))
    output = read_file(make_source(proof.output, "output.py")).definitions
    doubts = replace(doubts, declared=doubts.declared | {*proof.missing})
    for name in proof.differ:
        if name not in written.declared:
            doubts = _brought(doubts, name, writer)
        elif name in written.derived:
            members = _differing(output[name], writer.model.definitions[name])
            doubts = _without(doubts, name, members, writer.source_of(name))
    return doubts


def _brought(doubts: Doubts, name: str, writer: Writer) -> Doubts:
    """That the draft itself says where a definition comes from: by an import, or else in full."""
    if writer.can_import(name) and name not in doubts.imported:
        return replace(doubts, imported=doubts.imported | {name})
    return replace(doubts, declared=doubts.declared | {name})


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
