"""Modular files of every kind, made of all models: written and right, or refused with a place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.population.kinds import KINDS

pytest.importorskip("torch")
pytest.importorskip("transformers")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "population.py"
Results = list[dict[str, str]]


def results_of(parts: Iterable[str], folder: Path) -> Results:
    """Each part of the models in a process of its own, which what it imports does not outlive."""
    results = []
    for part in parts:
        out = folder / "results.jsonl"
        command = [sys.executable, SCRIPT, "--models", part, "--out", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1) and out.exists(), done.stderr
        results += [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        out.unlink()
    return results


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(["97/352"], tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of((f"{n}/16" for n in range(1, 17)), tmp_path_factory.mktemp("all"))


def of_kind(results: Results, kind: str) -> Results:
    """The results of files whose model can be imported here; none of them is broken."""
    mine = [r for r in results if r["kind"] == kind and r["state"] != "unmade"]
    wrong = [r for r in mine if r["state"] not in ("written", "refused") or r["logged"]]
    lines = [f"{r['state']} {r['form']} {r['model']}: {r['why']} {r['logged']}" for r in wrong]
    assert not wrong, f"{len(wrong)} of {len(mine)}\n" + "\n".join(lines)
    return mine


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_sample_is_broken(kind: str, sample: Results) -> None:
    of_kind(sample, kind)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_all_models(kind: str, everything: Results) -> None:
    mine = of_kind(everything, kind)
    written = [result["why"] for result in mine if result["state"] == "written"]
    assert len(written) >= 0.95 * len(mine) > 200
    assert sum("outputs" in why for why in written) >= 0.55 * len(written)  # run and compared
