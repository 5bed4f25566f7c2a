"""Errors planted by hand in generated files, one at a time: verify has to see each.

They are those that it did not see before configurations of checkpoints, other ways to call a model,
heads that changed lines read and kernels that no CPU has were run; those of `unseen/`, before a
model was held against itself.  Those of `others/`, `kept/`, `blind/` and `fresh/` were written without a
look at what verify does; `blind/` has those that it did not see then.
"""

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.parity.planted_errors import (
    FRESH,
    Error,
    changed_text,
    converted,
    errors,
    planted,
    seen_by,
)

ERRORS = tuple(errors())
# Of each kind of file some that are seen soon.
SAMPLE = (
    "bloom_sdpa: the eager softmax keeps the dtype",
    "vit_rewritten: the bias is forgotten",
)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_the_text_that_it_replaces_is_there(error: Error):
    assert changed_text(error)


@pytest.mark.usefixtures("own_generated")
@pytest.mark.parametrize("error", [each for each in ERRORS if str(each) in SAMPLE], ids=str)
def test_one_of_its_kind_is_seen(error: Error, tmp_path):
    test_it_is_seen(error, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in FRESH.glob("*.toml")))
def test_without_an_error_nothing_fails(name: str, tmp_path):
    text = (FRESH / f"modular_{name}.py").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert seen_by(converted(text, name, tmp_path)) is None


@pytest.mark.slow
@pytest.mark.usefixtures("own_generated")
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_it_is_seen(error: Error, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = seen_by(planted(error, tmp_path), error.by)
    if error.unseen:
        assert result is None, f"it is seen now, and {error.unseen}"
    else:
        assert result is not None
