"""Modular files of every kind, made of all models: written and right, or refused with a place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.population.kinds import KINDS

pytest.importorskip("torch")
pytest.importorskip("transformers")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "population.py"
Results = list[dict[str, str]]


def results_of(part: str, folder: Path, *options: str) -> Results:
    """A part of the models, in a process of its own, which what it imports does not outlive."""
    out = folder / "results.jsonl"
    command = [sys.executable, SCRIPT, "--models", part, "--out", out, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and out.exists(), done.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def none_is_broken(results: Results) -> Results:
    """The results of files whose model can be imported here; none of them is broken."""
    mine = [result for result in results if result["state"] != "unmade"]
    wrong = [r for r in mine if r["state"] not in ("written", "refused") or r["logged"]]
    lines = [f"{r['state']} {r['form']} {r['model']}: {r['why']} {r['logged']}" for r in wrong]
    assert not wrong, f"{len(wrong)} of {len(mine)}\n" + "\n".join(lines)
    return mine


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of("97/352", tmp_path_factory.mktemp("sample"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_sample_is_broken(kind: str, sample: Results) -> None:
    none_is_broken([result for result in sample if result["kind"] == kind])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(1, 17))
def test_all_models(part: int, tmp_path: Path) -> None:
    mine = none_is_broken(results_of(f"{part}/16", tmp_path))
    for kind in KINDS:
        of_kind = [result for result in mine if result["kind"] == kind]
        written = [result["why"] for result in of_kind if result["state"] == "written"]
        assert len(written) >= 0.9 * len(of_kind) > 10, kind
        assert sum("outputs" in why for why in written) >= 0.5 * len(written), kind  # compared
