"""Modular files of every kind, made of all models: the flat files are as Python runs the modular ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("transformers")


def judge(part: str, folder: Path) -> None:
    """Judge a part of the models, in a process of its own, which what it imports does not outlive."""
    out = folder / "results.jsonl"
    command = [sys.executable, "-m", "tests.population.as_python", "--models", part, "--out", out]
    quiet = {"OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=REPOSITORY, env=os.environ | quiet, check=False
    )
    assert done.returncode in (0, 1) and out.exists(), done.stderr[-2000:]
    results = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    wrong = [" ".join(r.values()) for r in results if r["state"] == "differs"]
    assert not wrong, f"{len(wrong)} of {len(results)}\n" + "\n".join(wrong)
    states = Counter(result["state"] for result in results)
    assert states["equal"] >= 0.5 * (len(results) - states["refused"]), states


def test_a_sample_is_as_python_runs_it(tmp_path: Path) -> None:
    judge("97/352", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(1, 17))
def test_all_models_are_as_python_runs_them(part: int, tmp_path: Path) -> None:
    judge(f"{part}/16", tmp_path)
