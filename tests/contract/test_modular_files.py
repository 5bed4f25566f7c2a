"""What holds of every checked-in modular file: it says what it is for, and repeats and adds little."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from patchgen.project.lock import Record, read_lock
from patchgen.syntax.errors import Location
from patchgen.syntax.locate import make_environment
from tests.toytree import REPOSITORY

MODULAR = sorted((REPOSITORY / "modular").rglob("modular_*.py"))
REPEATED = 12  # lines in a row; an edit quotes the statements that it replaces
# Syntax nodes that all variants together may add to their parents; new models, which have no diff, are not among them.
# People read these files: this number is only ever lowered.  It counts no lines, since code that is folded into few
# lines reads worse.
ADDED = 35_717


@cache
def recorded() -> Mapping[str, Record]:
    return read_lock(REPOSITORY / "patchgen.lock")


def lines_of(text: str) -> list[str]:
    """The lines that say something, without their indentation."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def longest_run(lines: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many of `lines` stand in `other` in the same order with nothing between, and where they begin."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(other):
        places.setdefault(line, []).append(at)
    best, first = 0, 0
    runs: dict[int, int] = {}  # the length of the common run that ends at a line of `other`
    for number, line in enumerate(lines, start=1):
        runs = {at: runs.get(at - 1, 0) + 1 for at in places.get(line, ())}
        longest = max(runs.values(), default=0)
        if longest and longest >= best:
            best, first = longest, number - longest
    return best, first


def count_nodes(path: Path) -> int:
    return sum(1 for _ in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def test_the_gallery_adds_little_to_its_parents():
    transformers = make_environment(REPOSITORY).path("transformers")
    added = {}
    for diff in sorted((REPOSITORY / "generated").rglob("*.diff")):
        first_line, *_ = diff.read_text(encoding="utf-8").splitlines()
        parent = transformers.parents[1] / first_line.removeprefix("--- ")
        added[diff.stem] = count_nodes(diff.with_suffix(".py")) - count_nodes(parent)
    most = sorted(added.items(), key=lambda item: -item[1])[:5]
    assert sum(added.values()) <= ADDED, f"{sum(added.values())} nodes; most: {most}"


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_repeats_little_of_its_parents(path: Path):
    env, name = make_environment(REPOSITORY), path.relative_to(REPOSITORY).as_posix()
    records = [record for record in recorded().values() if record.modular == name]
    parents = {module for record in records for module in record.parents}
    assert any(module.startswith("transformers.models.") for module in parents)
    own = lines_of(path.read_text(encoding="utf-8"))
    for module in sorted(parents):
        count, first = longest_run(own, lines_of(env.index(module, Location(module)).source.text))
        assert count <= REPEATED, f"{count} lines from {own[first]!r} on stand in {module} too"


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_begins_with_what_it_is_for(path: Path):
    assert path.read_text(encoding="utf-8").startswith('"""')
