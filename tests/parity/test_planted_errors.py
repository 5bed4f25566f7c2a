"""Errors planted by hand in generated files, one at a time: verify has to see each.

They are those that it did not see before configurations of checkpoints, other ways to call a model,
heads that changed lines read and kernels that no CPU has were run; those of `unseen/`, before a
model was held against itself.
"""

import sys
import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.parity.planted_errors import Error, errors, planted, seen_by

ERRORS = tuple(errors())


@pytest.fixture
def forgets_generated():
    """Other tests import `generated` of the repository, and not what a test here has planted."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated"]:
        del sys.modules[name]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_the_text_that_it_replaces_is_there(error: Error, tmp_path):
    planted(error, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("forgets_generated")
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_it_is_seen(error: Error, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = seen_by(planted(error, tmp_path), error.by)
    if error.unseen:
        assert result is None, f"it is seen now, and {error.unseen}"
    else:
        assert result is not None
