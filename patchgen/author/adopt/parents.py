"""Find the model and the release of transformers that a fork was made from.

Models are ranked by the lines that they share with the fork; rare lines count most;
releases by the length of the declaration that each would need.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen.author.adopt.classes import Doubts
from patchgen.author.adopt.fit import blockers, lacking_imports, read_text, unbound
from patchgen.author.adopt.forked import ForkedModel, pair_with_parent, rename_classes
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.write import declare
from patchgen.author.align.file import File, read_file
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.text import read_source

# Below this share of its lines, a file is no fork of the model that is most like it.
LEAST = 0.15
_SHORTEST = 12
_FINALISTS = 3
_NAME = 20
# For so many parents a declaration is written and measured; the others are too far by their lines.
_DECLARED = 6
_MOST_LOOKED_AT = 60
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Similarity:
    """A model, and its share of the fork's lines.

    `share` is of its lines; in `weight` rare lines count more.
    """

    module: str
    path: Path
    share: float
    weight: float


@dataclass(frozen=True)
class Candidate:
    """A fork beside one parent.  How long its declaration would be is found when it is asked."""

    forked: ForkedModel
    release: Release

    @cached_property
    def lines(self) -> int:
        """The length of the declaration.

        Names that only another release has weigh more than lines.
        """
        forked = self.forked
        text = declare(forked, Doubts()).text if forked.pairs else forked.fork.source.text
        written = [line.lstrip() for line in text.split("\n")]
        unread = _NAME * len(unbound(forked))
        return sum(1 for one in written if one and not one.startswith("#")) + unread

    @cached_property
    def common(self) -> float:
        """The share of the fork's lines that the parent has."""
        own = lines_of(self.forked.fork.source.text)
        return len(own & lines_of(self.forked.parent.source.text)) / max(len(own), 1)

    @cached_property
    def blockers(self) -> int:
        """How much prevents a declaration over this parent."""
        lacking = lacking_imports(self.forked.fork, self.release.root())
        return len(lacking) + len(list(blockers(self.forked)))

    @cached_property
    def rank(self) -> tuple[bool, int, int, float, tuple[int, ...]]:
        """The sort key: called as in the fork, may reproduce it, shortest, most similar, newest."""
        return (
            self.forked.renames,
            self.blockers,
            self.lines,
            -self.common,
            tuple(-number for number in self.release.order),
        )


def modeling_files(release: Release) -> tuple[tuple[str, Path], ...]:
    """The modeling modules of a release, by dotted name."""
    folder = release.root() / "transformers" / "models"
    files = sorted(folder.glob("*/modeling_*.py"))
    skipped = ("modeling_tf_", "modeling_flax_")
    return tuple(
        (f"transformers.models.{path.parent.name}.{path.stem}", path)
        for path in files
        if not path.name.startswith(skipped)
    )


def find_file(release: Release, model: str) -> tuple[str, Path]:
    """The modeling module that `model` names.

    Raises PatchgenError PG801 where there is none, or more than one.
    """
    files = modeling_files(release)
    wanted = model.replace("-", "_").removeprefix("modeling_")
    exact = [
        (name, path) for name, path in files if name == model or path.stem == f"modeling_{wanted}"
    ]
    inside = [(name, path) for name, path in files if path.parent.name == wanted]
    for found in (exact, inside):
        if len(found) == 1:
            return found[0]
    stems = [path.stem.removeprefix("modeling_") for _, path in files]
    hint = (
        f"one of {', '.join(p.stem for _, p in inside)}" if inside else did_you_mean(wanted, stems)
    )
    what = f"names no modeling module of transformers {release.version}"
    raise PatchgenError("PG801", Location(model), what, hint)


def lines_of(text: str) -> frozenset[str]:
    """The lines of code that tell files apart."""
    stripped = (line.strip() for line in text.split("\n"))
    return frozenset(
        s for s in stripped if len(s) >= _SHORTEST and not s.startswith(("#", "import ", "from "))
    )


@lru_cache(maxsize=1024)
def _lines_of_file(path: Path) -> frozenset[str]:
    return lines_of(read_text(path))


def alike(fork: File, release: Release) -> list[Similarity]:
    """The models of a release by how much of the fork they have, the most first."""
    own = lines_of(fork.source.text)
    common: dict[str, tuple[Path, frozenset[str]]] = {}
    seen: Counter[str] = Counter()
    for module, path in modeling_files(release):
        shared = own & _lines_of_file(path)
        common[module] = path, shared
        seen.update(shared)
    found = [
        Similarity(
            module, path, len(shared) / max(len(own), 1), sum(1 / seen[line] for line in shared)
        )
        for module, (path, shared) in common.items()
    ]
    return sorted(found, key=lambda one: (-one.weight, one.module))


def candidate(fork: File, release: Release, module: str, path: Path) -> Candidate:
    """The fork beside one parent."""
    return Candidate(_beside(fork, release, module, path), release)


def _beside(fork: File, release: Release, module: str, path: Path) -> ForkedModel:
    parent = read_file(read_source(path, module, "/".join(path.parts[-4:])))
    return pair_with_parent(parent, fork, module, root=release.root())


@dataclass(frozen=True)
class _Near:
    """A parent by its lines alone: `distance` counts those that only one of the two files has."""

    release: Release
    module: str
    path: Path
    text: str
    distance: float


def _near(fork: File, release: Release, module: str, path: Path) -> _Near:
    """How far a parent is from the fork, in the fork's names."""
    text = read_text(path)
    classes = _CLASS.findall(text)
    renaming = rename_classes(classes, fork.classes)
    renamed = text
    if renaming.new and not renaming.behind:
        # With nothing before it to replace, any word with a capital would do.
        following = "[A-Z]" if renaming.old else rf"(?:{'|'.join(classes)})\b"
        renamed = re.sub(rf"\b{renaming.old}(?={following})", renaming.new, text)
    mine, theirs = lines_of(fork.source.text), lines_of(renamed)
    # What the fork has is written into the declaration; what it lacks is a part of an edit.
    distance = len(mine - theirs) + len(theirs - mine) / 2
    return _Near(release, module, path, text, distance)


def _select(near: Sequence[_Near]) -> list[_Near]:
    """The nearest first; of releases whose files are the same, the newest."""
    newest = {(one.module, one.text): one for one in near}
    return sorted(newest.values(), key=lambda one: one.distance)


def find_parents(
    fork: File, releases: Sequence[Release], model: str | None, done: Callable[[int], None]
) -> list[Candidate]:
    """Parents and releases, the one with the shortest declaration first.

    `done` is called for each release.

    Raises PatchgenError PG806 where nothing is like the fork, PG808 where two models fit equally.
    """
    modules = [find_file(r, model)[0] for r in releases[-1:]] if model else _models(fork, releases)
    near: list[_Near] = []
    for release in releases:
        there = dict(modeling_files(release))
        near += [_near(fork, release, one, there[one]) for one in modules if one in there]
        done(1)
    found = _declare_nearest(fork, _select(near))
    if not found:
        raise PatchgenError(
            "PG806", Location(fork.source.path), "has no parent in these releases", "name another"
        )
    # There is nothing to compare the only one with, which takes a fifth of the whole time.
    if len(found) == 1:
        return found
    found.sort(key=lambda one: one.rank)
    best = found[0]
    equal = {c.forked.module: c for c in found if c.rank[:4] == best.rank[:4]}
    if len(equal) > 1:
        names = " and ".join(
            sorted(name.rpartition(".")[2].removeprefix("modeling_") for name in equal)
        )
        what = f"fits {names} equally"
        raise PatchgenError(
            "PG808", Location(fork.source.path), what, "say which one with --parent"
        )
    return found


def _declare_nearest(fork: File, near: Sequence[_Near]) -> list[Candidate]:
    """The nearest parents with their declarations.

    If something prevents all of them, the first farther one that works.
    """
    found: list[Candidate] = []
    for number, one in enumerate(near[:_MOST_LOOKED_AT]):
        if number >= _DECLARED and any(not other.blockers for other in found):
            break
        forked = _beside(fork, one.release, one.module, one.path)
        candidate = Candidate(forked, one.release)
        if number < _DECLARED or not candidate.blockers:
            found.append(candidate)
    return found


def _models(fork: File, releases: Sequence[Release]) -> list[str]:
    """The models that the fork may come from.

    They are those most like it, in the releases at both ends and between.
    """
    some = (
        [releases[0], releases[len(releases) // 2], releases[-1]]
        if len(releases) > 2
        else list(releases)
    )
    ranked = [one for release in some for one in alike(fork, release)[:_FINALISTS]]
    best = max(ranked, key=lambda one: one.share, default=None)
    if best is None or best.share < LEAST:
        share = (
            f"{best.share:.0%} of its lines are in {best.module}"
            if best
            else "there is no model to compare with"
        )
        what = f"is no fork of any model: {share}, which is the most"
        raise PatchgenError(
            "PG806", Location(fork.source.path), what, "name the model with --parent to adopt it so"
        )
    ranked = [one for one in ranked if one.share >= best.share / 2]
    alike_most = [one.module for one in sorted(ranked, key=lambda one: -one.weight)]
    return [*dict.fromkeys([*_named(fork, some), *alike_most[: _FINALISTS + 1]])]


def _named(fork: File, releases: Sequence[Release]) -> list[str]:
    """The models that have most of the fork's names: its classes, and what it imports of them."""
    names: Counter[str] = Counter()
    for node, alias in fork.imports.values():
        if isinstance(node, ast.ImportFrom) and ".modeling_" in (node.module or ""):
            names[f"{node.module} {alias.name}"] += 1
    for release in releases:
        for module, path in modeling_files(release):
            there = {*_CLASS.findall(read_text(path))} & {*fork.classes}
            names.update(f"{module} {name}" for name in there)
    counts = Counter(key.partition(" ")[0] for key in names)
    known = {module for release in releases for module, _ in modeling_files(release)}
    return [
        module
        for module, count in counts.most_common(_FINALISTS)
        if module in known and count >= max(2, len(fork.classes) / 3)
    ]
