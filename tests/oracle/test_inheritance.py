"""The flat file does what Python's inheritance does, or is refused with a place, a code and a hint.

One test a dimension of the grammar, so that the share of refusals is bounded for each: refusing everything fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.errors import Problem, catalogue
from patchgen.flat import FlatFile, Flattened
from patchgen.flatten import flatten
from patchgen.settings import Settings
from patchgen.source.locate import make_environment
from tests.oracle import generator, judge
from tests.oracle.case import Case

QUICK, SLOW = 1, 7  # packages of a dimension: 300 and 2,000 in all
MANY = {"wild": (14, 150), "straight": (8, 100)}

EQUAL = "the generated code equals its parent's"

REFUSED: dict[str, float] = {}
"""The largest share of refusals of a dimension, where it is not 0: what is refused, rightly or not yet otherwise."""


@pytest.mark.parametrize("dimension", generator.DIMENSIONS)
def test_flat_is_inherited(dimension: str, tmp_path: Path) -> None:
    check(dimension, range(MANY.get(dimension, (QUICK, SLOW))[0]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", generator.DIMENSIONS)
def test_flat_is_inherited_many(dimension: str, tmp_path: Path) -> None:
    check(dimension, range(MANY.get(dimension, (QUICK, SLOW))[1]), tmp_path)


def check(dimension: str, seeds: range, folder: Path) -> None:
    """The packages of `dimension` with these numbers are flattened rightly, or refused no more often than allowed."""
    refused = []
    for case in (generator.make(dimension, seed) for seed in seeds):
        place = folder / str(case.seed)
        judge.write(place / "source", case.files)
        environment = make_environment(place / "source", search=[str(judge.LIBRARY)])
        result = flatten(place / "source" / case.modular, environment, Settings())
        if EQUAL in [problem.what for problem in result.problems] and not case.renames:
            # Then the parent itself must do what the child does.
            result = Flattened((FlatFile("modeling", "modeling_neo.py", case.files["toypack/modeling_toy.py"]),))
        if result.problems:
            for problem in result.problems:
                assert_located(problem, case)
            refused.append(result.problems[0])
            continue
        texts = {file.name: file.text for file in result.files}
        difference = judge.compare(case, texts, place / "inherited")
        assert difference is None, f"{case.name}: {difference}\n{case.listing()}\n{''.join(texts.values())}"
    bound = REFUSED.get(dimension, 0)
    allowed = bound * len(seeds) + (0 < bound < 1)  # a share says little of a few packages
    shown = "\n".join(map(str, refused[:3]))
    assert len(refused) <= allowed, f"{len(refused)} of {len(seeds)} refused, at most {bound} of them\n{shown}"


def assert_located(problem: Problem, case: Case) -> None:
    """A refusal names a line that exists, a code that is explained, and what to do."""
    text = case.files.get(problem.at.path)
    assert text is not None, f"{problem} is about no file of {case.name}"
    assert 0 < problem.at.line <= len(text.split("\n")), problem
    assert 0 < problem.at.column <= len(text.split("\n")[problem.at.line - 1]) + 1, problem
    assert problem.code in catalogue(), problem
    assert problem.what and problem.hint, f"no hint: {problem}"
    assert problem.severity == "error", problem
