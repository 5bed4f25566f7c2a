"""What holds of every checked-in modular file: it says what it changes, and repeats little of its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.errors import Location
from patchgen.gate.lock import read_lock
from patchgen.gate.repetition import lines_of, longest_run
from patchgen.source.locate import make_environment
from tests.toytree import REPOSITORY

MODULAR = sorted((REPOSITORY / "modular").rglob("modular_*.py"))
REPEATED = 12  # lines in a row; an edit quotes the statements that it replaces


def test_longest_run():
    assert longest_run(list("xabcab"), list("abcxab")) == (3, 1)
    assert longest_run(list("xyz"), list("abc"))[0] == 0


def test_there_are_modular_files():
    assert len(MODULAR) >= 4


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_repeats_little_of_its_parents(path: Path):
    env, name = make_environment(REPOSITORY), path.relative_to(REPOSITORY).as_posix()
    records = [record for record in read_lock(REPOSITORY / "patchgen.lock").values() if record.modular == name]
    parents = {used.symbol.rpartition(".")[0] for record in records for used in record.parents}
    assert any(module.startswith("transformers.models.") for module in parents)
    own = lines_of(path.read_text(encoding="utf-8"))
    for module in sorted(parents):
        count, first = longest_run(own, lines_of(env.index(module, Location(module)).source.text))
        assert count <= REPEATED, f"{count} lines from {own[first]!r} on stand in {module} too"


@pytest.mark.parametrize("path", MODULAR, ids=lambda path: path.stem)
def test_begins_with_what_it_is_for(path: Path):
    assert path.read_text(encoding="utf-8").startswith('"""')
