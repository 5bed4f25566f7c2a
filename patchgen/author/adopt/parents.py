"""Find the model and the release of transformers that a fork was made from.

Models are ranked by the lines that they share with the fork; rare lines count most;
releases by the lines that only the fork or only they have.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path

from patchgen.author.adopt.forked import (
    ForkedModel,
    pair_with_parent,
    read_text,
    rename_classes,
    unbound,
)
from patchgen.author.adopt.read import with_plain_super
from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import File, read_file
from patchgen.author.resolve import lacking_imports
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.text import make_source

# Below this share of its lines, a file is no fork of the model that is most like it.
LEAST = 0.15
_SHORTEST = 12
_FINALISTS = 3
# So many parents are looked at closely; the others are too far by their lines.
_PAIRED = 6
_MOST_LOOKED_AT = 60
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Candidate:
    """A fork beside one parent: `apart` are the lines that only one of them has, a half of those
    that only the parent has.
    """

    forked: ForkedModel
    release: Release
    apart: float = 0.0

    def __str__(self) -> str:
        return f"{self.forked.module} of transformers {self.release.version}"

    @cached_property
    def blockers(self) -> int:
        """How many names prevent a declaration over this parent: it or its release lacks them."""
        lacking = lacking_imports(self.forked.fork, self.release.root())
        return len(lacking) + len(unbound(self.forked))

    @cached_property
    def rank(self) -> tuple[bool, int, float, tuple[int, ...]]:
        """The sort key: called as in the fork, may reproduce it, nearest, newest."""
        newest = tuple(-number for number in self.release.order)
        return self.forked.renames, self.blockers, self.apart, newest


def modeling_files(release: Release) -> tuple[tuple[str, Path], ...]:
    """The modeling modules of a release, by dotted name."""
    files = sorted((release.root() / "transformers" / "models").glob("*/modeling_*.py"))
    files = [path for path in files if not path.stem.startswith(("modeling_tf_", "modeling_flax_"))]
    return tuple((f"transformers.models.{path.parent.name}.{path.stem}", path) for path in files)


def find_file(release: Release, model: str) -> tuple[str, Path]:
    """The modeling module that `model` names.

    Raises PatchgenError PG801 where there is none, or more than one.
    """
    files = modeling_files(release)
    wanted = model.replace("-", "_").removeprefix("modeling_")
    exact: list[tuple[str, Path]] = []
    inside: list[tuple[str, Path]] = []
    for module, path in files:
        if module == model or path.stem == f"modeling_{wanted}":
            exact.append((module, path))
        if path.parent.name == wanted:
            inside.append((module, path))
    for matches in (exact, inside):
        if len(matches) == 1:
            return matches[0]
    if inside:
        hint = f"one of {', '.join(path.stem for _, path in inside)}"
    else:
        hint = did_you_mean(wanted, [path.stem.removeprefix("modeling_") for _, path in files])
    what = f"names no modeling module of transformers {release.version}"
    raise PatchgenError("PG801", Location(model), what, hint)


@lru_cache(maxsize=1024)
def lines_of(text: str) -> frozenset[str]:
    """The lines of code that tell files apart."""
    lines = {line.strip() for line in text.split("\n")}
    none = ("#", "import ", "from ")
    return frozenset(s for s in lines if len(s) >= _SHORTEST and not s.startswith(none))


def candidate(
    fork: File, release: Release, module: str, path: Path, apart: float = 0.0
) -> Candidate:
    """The fork beside one parent."""
    text = with_plain_super(read_text(path))
    display = "/".join(path.parts[-4:])
    parent = read_file(make_source(text, display, module))
    return Candidate(pair_with_parent(parent, fork, module, root=release.root()), release, apart)


def find_parents(
    fork: File, releases: Sequence[Release], model: str | None, done: Callable[[int], None]
) -> list[Candidate]:
    """Parents and releases, the nearest first.

    `done` is called for each release.

    Raises PatchgenError PG806 where nothing is like the fork.
    """
    if model:
        modules = [find_file(releases[-1], model)[0]]
    else:
        modules = _models(fork, releases)
    # Of releases whose files are the same, the newest.
    newest: dict[tuple[str, str], tuple[Release, Path]] = {}
    for release in releases:
        for module, path in modeling_files(release):
            if module in modules:
                text = read_text(path)
                newest[module, text] = release, path
        done(1)
    options: list[tuple[bool, float, Release, str, Path]] = []
    for (module, text), (release, path) in newest.items():
        is_another, apart = _distance(fork, text)
        options.append((is_another, apart, release, module, path))
    options.sort(key=itemgetter(0, 1))
    candidates: list[Candidate] = []
    # The nearest; if something prevents all of them, the first farther one that works.
    for number, (_, apart, release, module, path) in enumerate(options[:_MOST_LOOKED_AT]):
        if number >= _PAIRED and any(not other.blockers for other in candidates):
            break
        candidates.append(candidate(fork, release, module, path, apart))
    return sorted(candidates, key=lambda option: option.rank)


def _distance(fork: File, text: str) -> tuple[bool, float]:
    """Whether it is not the model of the fork's name, and how many lines only one file has.

    The lines are compared in the fork's names.  A model of transformers may have the classes of a
    fork that was there before it, and other code.
    """
    classes = _CLASS.findall(text)
    renaming = rename_classes(classes, fork.classes)
    if renaming.new and not renaming.behind:
        following = "[A-Z]"
        if not renaming.old:
            # With nothing before it to replace, any word with a capital would do.
            following = rf"(?:{'|'.join(classes)})\b"
        text = re.sub(rf"\b{renaming.old}(?={following})", renaming.new, text)
    mine = lines_of(fork.source.text)
    theirs = lines_of(text)
    common_classes = set(classes).intersection(fork.classes)
    common_lines = mine & theirs
    has_classes = len(common_classes) >= len(fork.classes) / 3
    has_lines = len(common_lines) >= len(mine) / 3
    # What the fork has is written into the declaration; what it lacks is a part of an edit.
    added = len(mine) - len(common_lines)
    removed = len(theirs) - len(common_lines)
    apart = added + removed / 2
    return not (has_classes and has_lines), apart


def _models(fork: File, releases: Sequence[Release]) -> list[str]:
    """The models most like the fork, in the releases at both ends and between."""
    middle = releases[len(releases) // 2]
    looked_at = list(dict.fromkeys((releases[0], middle, releases[-1])))
    ranked: list[_Likeness] = []
    for release in looked_at:
        ranked += _alike(fork, release)
    if not ranked:
        ranked.append(_NO_MODEL)
    ranked.sort(key=lambda model: (model.weight, model.share, model.module), reverse=True)
    closest = max(ranked, key=lambda model: (model.share, model.module))
    if closest.share < LEAST:
        share = f"{closest.share:.0%} of its lines are in {closest.module}, the most"
        what = f"is no fork of any model: {share}"
        hint = "name the model with --parent to adopt it so"
        raise PatchgenError("PG806", Location(fork.source.path), what, hint)
    least = closest.share / 2
    like_it = [model.module for model in ranked if model.share >= least]
    modules = _named(fork, looked_at)
    modules += like_it[: _FINALISTS + 1]
    return list(dict.fromkeys(modules))


@dataclass(frozen=True, slots=True)
class _Likeness:
    """How much of a fork's lines a model has; in the weight, rare lines count more."""

    module: str
    weight: float
    share: float


_NO_MODEL = _Likeness("any", 0.0, 0.0)


def _alike(fork: File, release: Release) -> list[_Likeness]:
    """The models that have most of the fork's lines."""
    mine = lines_of(fork.source.text)
    common = {}
    for module, path in modeling_files(release):
        common[module] = mine & lines_of(read_text(path))
    models_with = Counter(itertools.chain.from_iterable(common.values()))
    models = []
    most = max(len(mine), 1)
    for module, lines in common.items():
        weight = sum(1 / models_with[line] for line in lines)
        share = len(lines) / most
        models.append(_Likeness(module, weight, share))
    models.sort(key=lambda model: (-model.weight, model.module))
    return models[:_FINALISTS]


def _named(fork: File, releases: Sequence[Release]) -> list[str]:
    """The models that have most of the fork's names: its classes, and what it imports of them."""
    modules = set()
    # Each name of a module counts once, whatever the releases that have it.
    names: dict[tuple[str, str], None] = {}
    for node, _ in fork.imports.values():
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[node.module or "", alias.name] = None
    for release in releases:
        for module, path in modeling_files(release):
            modules.add(module)
            for name in _CLASS.findall(read_text(path)):
                if name in fork.classes:
                    names[module, name] = None
    counts = Counter(module for module, _ in names if module in modules)
    least = max(2, len(fork.classes) / 3)
    most = counts.most_common(_FINALISTS)
    return [module for module, count in most if count >= least]
