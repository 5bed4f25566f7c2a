"""How many models of transformers 5.23.0 each part is written for, as a ratchet."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import every_module, open_module
from patchgen.author.declare.request import WRITERS
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_package() is None, reason="the counts are of another release of transformers"
    ),
]

# Checkpointing is redundant in nearly 300 more, which transformers checkpoints.
AT_LEAST = {"sdpa": 72, "checkpoint": 138, "loss": 241, "norm": 432, "moe": 53}


@pytest.mark.parametrize("part", AT_LEAST)
def test_reach(part):
    env = make_environment(Path.cwd())
    found = collections.Counter(
        _outcome(WRITERS[part](open_module(env, name))) for name in every_module(env)
    )
    assert found["written"] >= AT_LEAST[part], found


def _outcome(contribution):
    if contribution.redundant:
        return "redundant"
    return "refused" if any(missing.fatal for missing in contribution.missing) else "written"
