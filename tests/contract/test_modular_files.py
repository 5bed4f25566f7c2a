"""What holds of every checked-in modular file: it says what it changes, and repeats little of its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.errors import Location
from patchgen.flatten import flatten
from patchgen.settings import Settings
from patchgen.source.locate import make_environment
from tests.toytree import REPOSITORY

MODULAR = sorted((REPOSITORY / "modular").rglob("modular_*.py"))
REPEATED = 12  # lines in a row; an edit quotes the statements that it replaces


def lines_of(text: str) -> list[str]:
    """The lines that say something; indentation does not count."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def longest_run(lines: list[str], other: list[str]) -> tuple[int, int]:
    """How many lines of `lines` stand in `other` in the same order with nothing between, and where they begin."""
    best = (0, 0)
    runs: dict[int, int] = {}  # the length of the common run that ends before a line of `other`
    for number, line in enumerate(lines, start=1):
        runs = {at: runs.get(at - 1, 0) + 1 for at, same in enumerate(other, start=1) if same == line}
        longest = max(runs.values(), default=0)
        best = max(best, (longest, number - longest))
    return best


def test_longest_run():
    assert longest_run(list("xabcab"), list("abcxab")) == (3, 1)
    assert longest_run(list("xyz"), list("abc"))[0] == 0


def test_there_are_modular_files():
    assert len(MODULAR) >= 4


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_repeats_little_of_its_parents(path: Path):
    env = make_environment(REPOSITORY)
    result = flatten(path, env, Settings())
    assert result.files, result.problems
    parents = {used.symbol.rpartition(".")[0] for file in result.files for used in file.parents}
    assert any(module.startswith("transformers.models.") for module in parents)
    own = lines_of(path.read_text(encoding="utf-8"))
    for module in sorted(parents):
        count, first = longest_run(own, lines_of(env.index(module, Location(module)).source.text))
        assert count <= REPEATED, f"{count} lines from {own[first]!r} on stand in {module} too"


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_begins_with_what_it_is_for(path: Path):
    assert path.read_text(encoding="utf-8").startswith('"""')
