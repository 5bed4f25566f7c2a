"""The numeric pass: what it must find wrong, and what it must not."""

from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.coverage.structure import Task, declared
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

from patchgen.author.coverage.trial import tried
from patchgen.author.coverage.watch import Limits, watched


def written(model, part):
    return declared(
        make_environment(Path.cwd()),
        Task(model, f"transformers.models.{model}.modeling_{model}", part),
    )


@pytest.mark.slow
def test_an_error_of_the_part_is_the_first_failure(tmp_path):
    found = written("mpnet", "sdpa")
    wrong = replace(found, text=found.text.replace("scaling=1 /", "scaling=2 /"))
    assert wrong.text != found.text
    entry = tried(wrong, tmp_path)
    assert (entry.status, entry.key) == ("failed", found.entry.key)
    assert "MPNetForMaskedLM float32 full closest" in entry.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "error"),
    [("sdpa", "scale (attention_interface)"), ("checkpoint", "gradient cut off"), ("loss", "")],
)
def test_a_verified_part_names_the_class_and_the_errors_that_were_seen(part, error):
    ((_, entry),) = watched([written("mpnet", part)], Limits(), jobs=1)
    assert (entry.status, entry.heads[0]) == ("verified", "MPNetForMaskedLM"), entry
    assert any(error in seen for seen in entry.seen)


@pytest.mark.slow
def test_a_child_that_takes_too_long_costs_one_entry():
    found = written("mpnet", "sdpa")
    ((_, entry),) = watched([found], Limits(seconds=0.01), jobs=1)
    assert (entry.status, entry.key) == ("cannot be built here", found.entry.key)
    assert "more than 0 seconds" in entry.why
