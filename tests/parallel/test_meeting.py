"""If the first process fails, the others do not wait: all end with its error."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.toytree import REPOSITORY, environment

PATIENCE = 120  # seconds


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What each of two processes saw, by the names of cases."""
    place = tmp_path_factory.mktemp("meeting")
    argv = [sys.executable, "-m", "tests.parallel.meeting", str(place)]
    more = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, other = (
        json.loads((place / f"{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)
    )
    return {name: (first[name], other[name]) for name in first}


def test_the_others_have_what_the_first_made(both):
    assert both["in order"] == (True, True)


def test_all_end_with_the_error_of_the_first(both):
    first, other = both["refused before others"]
    assert first == other and first.startswith("PatchgenError: run: PG817 cannot be used"), first
    assert "take another" in first


def test_the_others_hear_of_a_defect(both):
    assert both["broken before others"] == (
        "ZeroDivisionError: a defect",
        "PeerLost: process 0 has failed: ZeroDivisionError: a defect",
    )


def test_a_run_in_use_is_refused_by_all(both):
    first, other = both["a run in use"]
    assert first == other and "PG817 another process has locked this run" in first, (first, other)
