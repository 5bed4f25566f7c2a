"""Which files and classes have the methods of a model, whatever they are called there.

In: texts.  Out: for each class of the model, how many of its lines a class of another file has.
Lines count in full where a whole method stands there: the dialect of transformers inherits it.
Others count by half.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from patchgen.author.adopt.parents import lines_of

# A class or function with its name and the indented lines below.
_DEFINITION = re.compile(r"^(?:class|def) (\w+)(.*\n(?:(?:[ \t)].*)?\n)*)", re.MULTILINE)
_METHOD = re.compile(r"^    (?:async )?def ", re.MULTILINE)
_STRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')
# Stands for the model's name.
_NAME = "_Name_"
_LEAST = 4
_MOST_ALIKE = 2


@dataclass(frozen=True)
class Outline:
    """A file by its classes and functions; each is the text below its name."""

    bodies: Mapping[str, str]

    @cached_property
    def lines(self) -> Mapping[str, frozenset[str]]:
        """The lines of each class and function."""
        return {name: lines_of(body) for name, body in self.bodies.items()}

    @cached_property
    def all_lines(self) -> frozenset[str]:
        """The lines of all of them."""
        return frozenset().union(*self.lines.values())

    @cached_property
    def pieces(self) -> Mapping[str, Sequence[frozenset[str]]]:
        """The lines of each method and of the attributes."""
        return {name: [*map(lines_of, _METHOD.split(body))] for name, body in self.bodies.items()}


def outline(text: str, cased: str, lower: str) -> Outline:
    """The outline of a file whose model is called `cased`; the name and docstrings do not count."""
    plain = _STRING.sub("", text).replace(cased, _NAME).replace(f"self.{lower}", f"self.{_NAME}")
    found = {one[1].replace(_NAME, cased): one[2] for one in _DEFINITION.finditer(plain)}
    return Outline(found)


@lru_cache(maxsize=1024)
def outline_of(path: Path, cased: str) -> Outline:
    """The outline of the modeling file at `path`."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return outline(text, cased, path.stem.removeprefix("modeling_"))


def choose_files(
    model: Outline, first: Sequence[Path], others: Mapping[Path, Outline], most: int
) -> list[Path]:
    """`first`, and the files that have most of the lines that those before do not have."""
    shared = {path: _shared(model, other) for path, other in others.items()}
    chosen: list[Path] = []
    had: Counter[str] = Counter()
    left = list(first)
    while len(chosen) < most and (left or shared):
        best = left.pop(0) if left else max(shared, key=lambda one: (_gain(shared[one], had), one))
        if best not in first and _gain(shared[best], had) < _LEAST:
            break
        chosen.append(best)
        had |= shared.get(best, Counter())
    return list(dict.fromkeys(chosen))


def _gain(shared: Counter[str], had: Counter[str]) -> int:
    """How many lines more there are in `shared` than in `had`."""
    return (shared - had).total()


def _shared(model: Outline, other: Outline) -> Counter[str]:
    """How many lines of each class and function one of another file has."""
    found: Counter[str] = Counter()
    for name, pieces in model.pieces.items():
        # Most files have nothing of a class, which shows without a look at each of theirs.
        if _common(pieces, other.all_lines) >= _LEAST:
            found[name] = max(_common(pieces, lines) for lines in other.lines.values())
    return found


def _common(pieces: Iterable[frozenset[str]], lines: frozenset[str]) -> int:
    """How much of `pieces` a class with `lines` has."""
    shared = ((len(piece), len(piece & lines)) for piece in pieces)
    return sum(count if count == size else count // 2 for size, count in shared)


def most_alike(model: Outline, name: str, classes: Mapping[str, frozenset[str]]) -> list[str]:
    """Those of `classes` with most lines of the class `name`, the best first."""
    pieces = model.pieces.get(name, ())
    common = {one: _common(pieces, lines) for one, lines in classes.items()}
    ranked = sorted((one for one in common if common[one]), key=lambda one: (-common[one], one))
    return ranked[:_MOST_ALIKE]
