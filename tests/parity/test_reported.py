"""Bugs as public trackers tell of them, in models outside the gallery: seen, and where they are."""

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.parity.reported import Bug, find_bugs, judge
from tests.population.models import find_models

BUGS = tuple(find_bugs())
TEXTS = {model.name: model for model in find_models()}
# Of a position, a mask that a text does not have, and a cache.
SAMPLE = (
    "esm: positions count padding",
    "dinov2: the mask of patches keeps what it should hide",
    "gemma3: images are read from left to right",
)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_the_text_that_it_replaces_is_there(bug: Bug):
    assert TEXTS[bug.model].text.count(bug.old) == bug.times


@pytest.mark.parametrize("bug", [each for each in BUGS if str(each) in SAMPLE], ids=str)
def test_one_of_its_kind_is_seen(bug: Bug, tmp_path):
    test_it_is_seen_where_it_is(bug, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_it_is_seen_where_it_is(bug: Bug, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = judge(bug, tmp_path)
    if bug.unseen:
        assert found["verdict"] == "missed", f"it is seen now, and {bug.unseen}"
        return
    assert found["verdict"] == "seen", found
    assert found["is named"] != bool(bug.elsewhere), found["cause"]
