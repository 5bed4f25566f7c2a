"""Modular files of every kind, made of all models: as Python runs them, or refused with a place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.population.kinds import IMPORT_TIME, KINDS

pytest.importorskip("torch")
pytest.importorskip("transformers")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "population.py"
Results = list[dict[str, str]]


def results_of(part: str, folder: Path, *options: str) -> Results:
    """A part of the models, in a process of its own, which what it imports does not outlive."""
    out = folder / "results.jsonl"
    command = [sys.executable, SCRIPT, "--models", part, "--out", out, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The table comes last: a traceback ends with 1 as well, and would leave some results.
    assert done.returncode in (0, 1) and "| kind" in done.stdout, done.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def none_is_wrong(results: Results) -> Results:
    """The results, of which none is broken, differs or logs at import."""
    wrong = [r for r in results if r["state"] in ("broken", "differs") or r["logged"]]
    lines = [f"{r['state']} {r['form']} {r['model']}: {r['why']} {r['logged']}" for r in wrong]
    assert not wrong, f"{len(wrong)} of {len(results)}\n" + "\n".join(lines)
    return results


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Results:  # OLMo 2: it has all kinds
    return results_of("326/529", tmp_path_factory.mktemp("sample"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_sample_is_wrong(kind: str, sample: Results) -> None:
    none_is_wrong([result for result in sample if result["kind"] == kind])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(1, 17))
def test_all_models(part: int, tmp_path: Path) -> None:
    results = none_is_wrong(results_of(f"{part}/16", tmp_path))
    for kind in KINDS:
        states = Counter(result["state"] for result in results if result["kind"] == kind)
        # What acts at import may be outside of the language.
        share = 0.5 if kind == IMPORT_TIME else 0.9
        assert states["equal"] + states["unjudged"] >= share * states.total() > 10, kind
        assert states["equal"] >= 0.5 * (states.total() - states["refused"]), kind
