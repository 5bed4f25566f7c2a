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


@pytest.mark.parametrize("name", ["in order", "made for all"])
def test_the_others_have_what_the_first_made(both, name):
    assert both[name] == (True, True)


@pytest.mark.parametrize("name", ["refused before others", "refused for all"])
def test_all_end_with_the_error_of_the_first(both, name):
    first, other = both[name]
    assert first == other and first.startswith("PatchgenError: run: PG817 cannot be used"), both[
        name
    ]
    assert "take another" in first


@pytest.mark.parametrize("name", ["broken before others", "broken for all"])
def test_the_others_hear_of_a_defect(both, name):
    assert both[name] == (
        "ZeroDivisionError: a defect",
        "PeerLost: process 0 has failed: ZeroDivisionError: a defect",
    )


def test_a_run_in_use_is_refused_by_all(both):
    first, other = both["a run in use"]
    assert first == other and "PG817 another process has locked this run" in first, (first, other)


def test_processes_of_the_same_rows_draw_the_same(both):
    first, other = both["draws"]
    differing, shared = zip(first, other, strict=True)
    assert all(one != another for one, another in zip(*differing, strict=True)), (
        "there was nothing to share"
    )
    assert shared == (first[0], first[0])
