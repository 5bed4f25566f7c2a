"""Plans of parts split a model on two processes without changing its results."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.toytree import REPOSITORY, environment

# Roundings of the largest gradient: the chunks of a sum come in another order.
BOUND = 100


@pytest.fixture(scope="module")
def apart():
    argv = [sys.executable, "-m", "tests.parallel.split"]
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_what_is_split_computes_what_the_whole_does(apart):
    planted = apart.pop("planted")
    assert len(apart) == 5 and all(each < BOUND for each in apart.values()), apart
    assert planted > 1e6 * BOUND, "and a wrong plan is seen"
