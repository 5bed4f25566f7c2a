"""The flat file does what Python's inheritance does, or is refused with place, code and hint.

One test a dimension of the grammar, so that the share of refusals is bounded for each: refusing
everything fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.compiler.flat import FlatFile, Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Problem, catalogue
from patchgen.syntax.locate import make_environment
from tests.oracle import generator, judge
from tests.oracle.case import Case

QUICK, SLOW = 2, 8  # packages of a dimension: 250 and 1,000 in all
MANY = {
    "wild": (6, 100),
    "straight": (4, 60),
    "explicit parent of another method": (6, 40),
    "super in semicolons": (6, 40),
    "super in return of a generator": (6, 40),
}

EQUAL = "the generated code equals its parent's"

ALWAYS, HALF, SELDOM = 1.0, 0.75, 0.45
"""Shares with some room above what was counted over 23 packages of a dimension."""

REFUSED: dict[str, float] = {
    # Not in the language, or a class that used to stay a subclass of its parent.
    "the name of the inherited method": ALWAYS,
    "strings in annotations that are no types": ALWAYS,
    "class state of a parent of two classes": ALWAYS,
    "kept base before the parent": ALWAYS,
    "dataclass frozen own setattr": ALWAYS,
    "cached decorator registers name": ALWAYS,
    "base by assignment": ALWAYS,
    "a parent with two heirs asked for": ALWAYS,
    # One name cannot mean two things in one file; the author has to say which of them is meant.
    "parent's function under an alias": ALWAYS,
    "two parents' helpers of one name": ALWAYS,
    "two variants with classes of one name": ALWAYS,
    # A class's own text does not tell what it inherits in its module from a base that stays there.
    "removed method": HALF,
    "explicit parent of another method": SELDOM,
    "explicit parent": SELDOM,
    # What Python gives a function that names `super`, where it can be seen.
    "locals() beside super": HALF,
    # A zero-argument `super()` in a scope of its own.
    "super in nested def": HALF,
    "super in lambda": HALF,
    "wild": 0.1,
}
"""The largest share of refusals of a dimension; 0 for those that are not named."""


@pytest.mark.parametrize("dimension", generator.DIMENSIONS)
def test_flat_is_inherited(dimension: str, tmp_path: Path) -> None:
    check(dimension, range(MANY.get(dimension, (QUICK, SLOW))[0]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", generator.DIMENSIONS)
def test_flat_is_inherited_many(dimension: str, tmp_path: Path) -> None:
    check(dimension, range(MANY.get(dimension, (QUICK, SLOW))[1]), tmp_path)


def check(dimension: str, seeds: range, folder: Path) -> None:
    """Packages of `dimension` are flattened correctly, or refused no more often than allowed."""
    refused = []
    for case in (generator.make(dimension, seed) for seed in seeds):
        place = folder / str(case.seed)
        judge.write(place / "source", case.files)
        environment = make_environment(place / "source", search=[str(judge.LIBRARY)])
        result = flatten(place / "source" / case.modular, environment, Settings())
        if EQUAL in [problem.what for problem in result.problems] and not case.renames:
            # Then the parent itself must do what the child does.
            result = Flattened(
                (FlatFile("modeling", "modeling_neo.py", case.files["toypack/modeling_toy.py"]),)
            )
        if result.problems:
            for problem in result.problems:
                assert_located(problem, case)
            refused.append(result.problems[0])
            continue
        texts = {file.name: file.text for file in result.files}
        difference = judge.compare(case, texts, place / "inherited")
        assert difference is None, (
            f"{case.name}: {difference}\n{case.listing()}\n{''.join(texts.values())}"
        )
    bound = REFUSED.get(dimension, 0)
    allowed = bound * len(seeds) + (0 < bound < 1)  # a share says little of a few packages
    listed = "\n".join(map(str, refused[:3]))
    assert len(refused) <= allowed, (
        f"{len(refused)} of {len(seeds)} refused, at most {bound} of them\n{listed}"
    )


def assert_located(problem: Problem, case: Case) -> None:
    """A refusal names a line that exists, a code that is explained, and what to do."""
    text = case.files.get(problem.at.path)
    assert text is not None, f"{problem} is about no file of {case.name}"
    assert 0 < problem.at.line <= len(text.split("\n")), problem
    assert 0 < problem.at.column <= len(text.split("\n")[problem.at.line - 1]) + 1, problem
    assert problem.code in catalogue(), problem
    assert problem.what and problem.hint, f"no hint: {problem}"
    assert problem.severity == "error", problem
