"""Upgrades with a known answer: nearly all are done unattended, and none is done otherwise."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.population.upgrades import KINDS, Judge, upgrades

RELEASES = ("5.2.0", "5.9.0", "5.17.0", "5.23.0", "5.24.0")
SEED = 20_261_126


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Unpacked releases; those that pip cannot fetch are left out."""
    folder, found = tmp_path_factory.mktemp("releases"), {}
    for release in RELEASES:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        if subprocess.run([*command, f"transformers=={release}"], check=False).returncode:
            continue
        with zipfile.ZipFile(next(folder.glob(f"transformers-{release}-*.whl"))) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".py")]
            wheel.extractall(folder / release, names)
        found[release] = folder / release
    if len(found) < 2:
        pytest.skip("no two releases can be fetched here")
    return found


def judged(releases: dict[str, Path], seed: int, count: int) -> Counter[str]:
    """How many upgrades have each state; none is wrong."""
    roots = list(releases.values())
    judge, counts = Judge(roots), Counter[str]()
    for upgrade in upgrades(roots, seed, count):
        state, why = judge.state_of(upgrade)
        assert state in ("equal", "asked", "unmade"), (state, upgrade.name, upgrade.kind, why)
        counts[state] += 1
    return counts


def test_a_sample_of_upgrades(releases: dict[str, Path]) -> None:
    counts = judged(releases, SEED, len(KINDS))
    assert counts["equal"] >= 0.8 * (len(KINDS) - counts["unmade"]) > 20


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_hundred_upgrades(releases: dict[str, Path]) -> None:
    counts = judged(releases, SEED + 1, 500)
    assert counts["equal"] >= 0.9 * (500 - counts["unmade"]) > 400
