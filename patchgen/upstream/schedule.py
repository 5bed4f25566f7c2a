"""Order modular files so that a file follows those whose outputs it derives from.

In: the texts of modular files by path.  Out: levels of files that need nothing of each other, and
the files on a cycle.  Only files of the run are looked at; no parent has to exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.upstream.names import KINDS

# By text, wherever it stands: the syntax trees of all files would cost a tenth of the whole run.
_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+(?:transformers\.models\.|\.\.\.models\.|\.\.)(\w+)\."
    rf"(?:{'|'.join(sorted(KINDS, key=len, reverse=True))})_(\w+)[ \t]+import\b",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Order:
    """`levels` in order, each sorted.

    `needs` maps a file to those that it derives from.  `stuck` are the files on a cycle and those
    that need them; `cycle` is one cycle, which ends with its start.
    """

    levels: tuple[tuple[Path, ...], ...]
    needs: Mapping[Path, frozenset[Path]]
    stuck: tuple[Path, ...] = ()
    cycle: tuple[Path, ...] = ()


def make_order(texts: Mapping[Path, str]) -> Order:
    """The order of all files.

    Files on a cycle, and files that need them, are in `stuck` and in no level.
    """
    needs = {
        path: frozenset(_needed(path, text)) & texts.keys() - {path} for path, text in texts.items()
    }
    waiting = dict(needs)
    levels: list[tuple[Path, ...]] = []
    while ready := _find_ready(waiting):
        levels.append(ready)
        waiting = {path: needed for path, needed in waiting.items() if path not in ready}
    # What is left waits for itself.
    return Order(tuple(levels), needs, tuple(sorted(waiting)), _cycle(waiting))


def _find_ready(waiting: Mapping[Path, frozenset[Path]]) -> tuple[Path, ...]:
    """The files that wait for none of the others, sorted."""
    return tuple(sorted(path for path, needed in waiting.items() if not needed & waiting.keys()))


def _needed(path: Path, text: str) -> Iterator[Path]:
    """The modular files whose outputs `text` imports; data2vec has two in its folder."""
    models = path.parent.parent
    for folder, model in _IMPORT.findall(text):
        yield models / folder / f"modular_{model}.py"


def _cycle(waiting: Mapping[Path, Iterable[Path]]) -> tuple[Path, ...]:
    """One cycle among files that each wait for another one of them; () without files."""
    walked: list[Path] = []
    # Always the smallest, so that each run names the same cycle.
    path = min(waiting, default=None)
    while path is not None and path not in walked:
        walked.append(path)
        path = min(needed for needed in waiting[path] if needed in waiting)
    return () if path is None else _from_smallest(walked[walked.index(path) :])


def _from_smallest(cycle: Sequence[Path]) -> tuple[Path, ...]:
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first], cycle[first])
