"""Reads the text that is trained on: passages with labels.

The text is the one that patchgen ships, text files, or a data set of `datasets`.  Every tenth
passage is kept for evaluation, unless the data set has a split for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.recipe import Recipe
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import gather

SHIPPED = Path(__file__).with_name("text")
KEPT = 10  # one passage in ten is for evaluation
SPLITS = ("validation", "test")  # the first that a data set has is for evaluation
TABLES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph of a file, or a row of a data set.

    `label` is the name of the file, or the value of the label column.
    """

    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The passages for training, and those kept for evaluation."""

    train: tuple[Passage, ...]
    kept: tuple[Passage, ...]
    source: str  # shown in messages

    @property
    def labels(self) -> tuple[str, ...]:
        """Return every label, sorted."""
        return tuple(sorted({passage.label for passage in (*self.train, *self.kept)}))

    @property
    def digest(self) -> str:
        """Return a digest of all passages, their labels and the split."""
        passages = repr(
            [[(one.text, one.label) for one in part] for part in (self.train, self.kept)]
        )
        return hashlib.sha256(passages.encode()).hexdigest()


def read_corpus(recipe: Recipe) -> Corpus:
    """Return the corpus that the recipe names.

    Raises PatchgenError PG815 for data that cannot be read, or is empty.
    """
    if not recipe.data:
        return _split(_of_files(sorted(SHIPPED.glob("*.txt"))), "the text that patchgen ships")
    paths = [Path(name) for name in recipe.data]
    if len(paths) == 1 and not (paths[0].exists() and _is_text(paths[0])):
        return _of_data_set(recipe, recipe.data[0])
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise PatchgenError(
            "PG815", Location(str(missing[0])), "does not exist", "name text files, or one data set"
        )
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("*.txt")) if path.is_dir() else [path])
    ]
    return _split(_of_files(files), ", ".join(recipe.data))


def _is_text(path: Path) -> bool:
    """Return whether the path is a text file, or a folder with one."""
    return (
        next(path.rglob("*.txt"), None) is not None if path.is_dir() else path.suffix not in TABLES
    )


def _of_files(files: Iterable[Path]) -> Iterator[Passage]:
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PatchgenError(
                "PG815", Location(str(file)), f"cannot be read as text: {error}"
            ) from error
        for paragraph in re.split(r"\n\s*\n", text):
            if joined := " ".join(paragraph.split()):
                yield Passage(joined, file.stem)


def _split(passages: Iterable[Passage], source: str) -> Corpus:
    found = tuple(passages)
    kept = found[KEPT - 1 :: KEPT]
    if not kept:
        what = f"{len(found)} passages, and {KEPT} are needed to keep one for evaluation"
        raise PatchgenError("PG815", Location(source), what)
    train = tuple(passage for place, passage in enumerate(found, 1) if place % KEPT)
    return Corpus(train, kept, source)


def _of_data_set(recipe: Recipe, name: str) -> Corpus:
    parts = _loaded(name)
    train = _rows(recipe, name, parts["train"])
    kept = next((part for split in SPLITS if (part := parts.get(split)) is not None), None)
    if kept is None:
        return _split(train, name)
    return Corpus(tuple(train), tuple(_rows(recipe, name, kept)), name)


def _loaded(name: str) -> Any:
    """Return the splits of a data set: one saved by `datasets`, a table, or one of the Hub."""
    try:
        import datasets
    except ImportError as error:
        hint = "pip install 'patchgen[train]'"
        raise PatchgenError(
            "PG814", Location(f"--data {name}"), "needs the package datasets", hint
        ) from error
    path = Path(name)
    try:
        if path.is_dir() and any(
            (path / sign).exists() for sign in ("dataset_dict.json", "state.json")
        ):
            found = datasets.load_from_disk(name)
        elif path.suffix in TABLES:
            found = datasets.load_dataset(TABLES[path.suffix], data_files=name)
        else:
            found = datasets.load_dataset(name)
    except Exception as error:  # file systems, the Hub and parsers raise errors of their own
        message = " ".join(str(error).split())
        hint = "name text files, a folder, a table (csv, json, parquet) or a data set of the Hub"
        raise PatchgenError("PG815", Location(name), f"cannot be read: {message}", hint) from error
    parts = found if isinstance(found, dict) else {"train": found}
    if "train" not in parts:
        raise PatchgenError(
            "PG815", Location(name), f"has no split `train`, but {', '.join(parts)}"
        )
    return parts


def _rows(recipe: Recipe, name: str, part: Any) -> Iterator[Passage]:
    labelled = recipe.task == "classification"
    wanted = [recipe.text_column, *([recipe.label_column] if labelled else [])]
    for column in wanted:
        if column not in part.column_names:
            hint = "say which with --text-column and --label-column"
            what = f"has no column {column}, but {', '.join(part.column_names)}"
            raise PatchgenError("PG815", Location(name), what, hint)
    for row in part.select_columns(wanted):
        if text := " ".join(str(row[recipe.text_column] or "").split()):
            yield Passage(text, str(row[recipe.label_column]) if labelled else "")


def check_text_is_shared(corpus: Corpus, engine: Engine) -> None:
    """Raise PG815 where a process reads another text than the first process.

    Each process takes its share of the rows, so all must read the same ones.
    """
    digests = gather(engine, corpus.digest)
    other = next((rank for rank, digest in enumerate(digests) if digest != digests[0]), None)
    if other is not None:
        what = f"process {other} reads a different text under this name than process 0"
        raise PatchgenError(
            "PG815", Location(corpus.source), what, "the text must be the same on each machine"
        )


def require_labels(corpus: Corpus) -> Sequence[str]:
    """Return the labels; raise PG815 where there are fewer than two."""
    if len(corpus.labels) < 2:
        what = f"classification tells labels apart, and here is one: {corpus.labels[0]}"
        raise PatchgenError(
            "PG815", Location(corpus.source), what, "give several text files, or a --label-column"
        )
    return corpus.labels
