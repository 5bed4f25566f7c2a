"""Upgrades with a known answer: nearly all are done unattended, and none is done otherwise."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from patchgen.author.rebase.releases import Tree
from patchgen.syntax.locate import make_environment
from tests.population.upgrades import KINDS, Judge, modules_of, pairs_in, upgrades
from tests.population.wrappers import FORMS, state_of

RELEASES = ("5.2.0", "5.9.0", "5.17.0", "5.23.0", "5.24.0")
SAMPLE = ("5.9.0", "5.23.0")
SEED = 20_261_126


def fetched(names: Iterable[str], folder: Path) -> list[Path]:
    """The named releases, unpacked, as far as pip can fetch them."""
    found = []
    for release in names:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        if subprocess.run([*command, f"transformers=={release}"], check=False).returncode:
            continue
        with zipfile.ZipFile(next(folder.glob(f"transformers-{release}-*.whl"))) as wheel:
            names_of_files = [name for name in wheel.namelist() if name.endswith(".py")]
            wheel.extractall(folder / release, names_of_files)
        found.append(folder / release)
    if len(found) < 2:
        pytest.skip("no two releases can be fetched here")
    return found


def judged(roots: Sequence[Path], seed: int, count: int) -> Counter[str]:
    """How many upgrades have each state; none is wrong."""
    judge, counts = Judge(roots), Counter[str]()
    for upgrade in upgrades(roots, seed, count):
        state, why = judge.state_of(upgrade)
        assert state in ("equal", "asked", "unmade"), (state, upgrade.name, upgrade.kind, why)
        counts[state] += 1
    return counts


@pytest.mark.timeout(600)
def test_a_sample_of_upgrades(tmp_path: Path) -> None:
    count = len(KINDS) // 3
    counts = judged(fetched(SAMPLE, tmp_path), SEED, count)
    assert counts["equal"] >= 0.8 * (count - counts["unmade"]) > 6


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_hundred_upgrades(tmp_path: Path) -> None:
    counts = judged(fetched(RELEASES, tmp_path), SEED + 1, 500)
    assert counts["equal"] >= 0.9 * (500 - counts["unmade"]) > 400


def wrapped(old: Path, new: Path, step: int) -> Counter[str]:
    """How many overrides that call their parents have each state."""
    trees = Tree(make_environment(old, old, ())), Tree(make_environment(new, new, ()))
    shared = sorted({*modules_of(old)} & {*modules_of(new)})
    pairs = [pair for module in shared for pair in pairs_in(old, new, module)]
    counts = Counter[str]()
    for number, pair in enumerate(pairs[step // 2 :: step]):
        state = state_of(pair, FORMS[number % len(FORMS)], old, new, trees)
        assert state in ("followed", "asked", "unmade"), (state, pair.module, pair.owner)
        counts[state] += 1
    return counts


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", RELEASES[:3])
def test_overrides_that_call_their_parents(first: str, tmp_path: Path) -> None:
    old, new = fetched((first, RELEASES[-1]), tmp_path)
    counts = wrapped(old, new, 15)
    assert counts["followed"] >= 0.7 * (counts.total() - counts["unmade"]) > 25, counts
