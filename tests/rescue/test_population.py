"""Models of old releases as remote code: ported, loaded, and equal to their old release."""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys

import pytest

from tests.toytree import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ["llama@4.37.2", "gptj@4.37.2", "bert@4.37.2", "pegasus@4.37.2"])
def test_an_old_model(name, tmp_path):
    release = name.partition("@")[2]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        f"transformers=={release}",
    ]
    if subprocess.run([*command, "-d", tmp_path], check=False).returncode:
        pytest.skip("pip has no index")
    benchmark = runpy.run_path(str(REPOSITORY / "benchmarks/rescue.py"))
    work = tmp_path / "work"
    work.mkdir()
    args = argparse.Namespace(wheels=str(tmp_path), forks=None)
    measured = benchmark["measure"](name, "model", args, work)
    assert measured["left"] == []
    assert benchmark["runs"](measured)
