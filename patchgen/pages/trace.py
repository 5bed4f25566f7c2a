"""Read a variant for its page: the texts, the outputs, and where each of their lines comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.flatten import trace
from patchgen.compiler.plan.model import EditMatch
from patchgen.compiler.settings import Settings
from patchgen.pages.changes import Change, list_changes
from patchgen.pages.links import KINDS, Link, Sources, compare, link_lines
from patchgen.syntax.errors import Problem, Refusals
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import read_source


@dataclass(frozen=True, slots=True)
class Traced:
    """One output with the origins of its lines, and its changes."""

    file: FlatFile
    links: tuple[Link, ...]
    changes: tuple[Change, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many lines there are of each kind."""
        counted = Counter(link.kind for link in self.links)
        return {kind: counted[kind] for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Variant:
    """A modular file with what it gives.

    `texts` are the files that the outputs come from, by the path that is shown: the modular file
    first, then parts and further modular files, then the parents.
    """

    name: str
    modular: str
    texts: Mapping[str, str]
    parents: frozenset[str]
    outputs: tuple[Traced, ...]
    edits: tuple[EditMatch, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many lines of all outputs there are of each kind."""
        return {kind: sum(output.counts[kind] for output in self.outputs) for kind in KINDS}


def trace_variant(path: Path, env: Environment, settings: Settings) -> Variant:
    """The variant that the modular file at `path` declares.

    Raises Refusals with the problems of a modular file that gives no output.
    """
    traced = trace(path, env, settings)
    if traced.result.problems or not traced.result.files:
        raise Refusals(list[Problem](traced.result.problems))
    display_path = env.display_path(path)
    outputs: list[Traced] = []
    every = Sources({display_path: _text_of(display_path, env)}, frozenset())
    for file in traced.result.files:
        sources = _find_sources(file, display_path, traced.edits, env)
        parent = sources.texts[file.diff_base[0]] if file.diff_base is not None else ""
        hunks, alike = compare(file, parent, traced.edits)
        links = link_lines(file, sources, hunks, alike)
        outputs.append(Traced(file, links, list_changes(file, links, hunks)))
        every = Sources({**every.texts, **sources.texts}, every.parents | sources.parents)
    # The declaration's files stand before those of the parents.
    paths = sorted(every.texts, key=lambda path: path in every.parents)
    return Variant(
        name=path.stem.removeprefix("modular_"),
        modular=display_path,
        texts={path: every.texts[path] for path in paths},
        parents=every.parents,
        outputs=tuple(outputs),
        edits=traced.edits,
    )


def _find_sources(
    file: FlatFile, modular: str, edits: Iterable[EditMatch], env: Environment
) -> Sources:
    """The files that an output was made from, the parents among them told apart.

    Parents are the module that the output follows, and what else it has of transformers.
    """
    paths = {modular}
    paths.update(origin.path for origin in file.lines)
    paths.update(edit.declared.path for edit in edits)
    parents = {path for path in paths if path.startswith("transformers/")}
    if file.diff_base is not None:
        followed, _ = file.diff_base
        paths.add(followed)
        parents.add(followed)
    texts = {path: _text_of(path, env) for path in sorted(paths)}
    return Sources(texts, frozenset(parents))


def _text_of(display_path: str, env: Environment) -> str:
    """The text of the file that messages call so."""
    for root in (env.home, *env.roots):
        if (root / display_path).is_file():
            return read_source(root / display_path, allow_bidi=True).text
    raise AssertionError(f"{display_path} was read, and is not below a root")
