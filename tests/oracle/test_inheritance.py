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

QUICK, SLOW = 1, 4  # packages of a dimension: 280 and 1,100 in all
MANY = {"wild": (6, 100), "straight": (4, 60)}

EQUAL = "the generated code equals its parent's"

ALWAYS, MOSTLY, HALF, SELDOM = 1.0, 0.95, 0.75, 0.45
"""Shares with some room above what was counted over 23 packages of a dimension."""

REFUSED: dict[str, float] = {
    # Not in the language, or a class that used to stay a subclass of its parent.
    "super under another name": ALWAYS,
    "the name of the inherited method": ALWAYS,
    "default over a class attribute": ALWAYS,
    "class attribute computed from another": ALWAYS,
    "class attribute in the child reads a member of the parent by name": ALWAYS,
    "alias of a method": ALWAYS,
    "method used in the class body": ALWAYS,
    "static helper called in the class body": ALWAYS,
    "super in __new__": ALWAYS,
    "__eq__ takes the hash away": ALWAYS,
    "strings in annotations that are no types": ALWAYS,
    "type and MRO asked for": ALWAYS,
    "handlers by the classes of an object": ALWAYS,
    "virtual subclasses": ALWAYS,
    "class state of a parent of two classes": ALWAYS,
    "shared default argument": ALWAYS,
    "late wrapper": ALWAYS,
    "late wrapper same name": ALWAYS,
    "init subclass in kept mixin order": ALWAYS,
    "kept base before the parent": ALWAYS,
    "dataclass property in decorated child": ALWAYS,
    "dataclass frozen own setattr": ALWAYS,
    "dataclass own hash unsafe": ALWAYS,
    "dataclass post init added": ALWAYS,
    "dataclass method over field merged field": ALWAYS,
    "dataclass child plain order": ALWAYS,
    "descriptor set_name not overridden": ALWAYS,
    "descriptor instance by name": ALWAYS,
    "cached decorator registers name": ALWAYS,
    "functools decorators in chain": ALWAYS,
    "cached property overridden": ALWAYS,
    "prefix methods by dir in helper function": ALWAYS,
    "methods by vars of type": ALWAYS,
    "methods by class dict name": ALWAYS,
    "class body call order": ALWAYS,
    "same name late store hidden by the child": ALWAYS,
    "base by assignment": ALWAYS,
    "base is an alias": ALWAYS,
    "overriding class attribute with __class__ lookups": ALWAYS,
    "same name and other heir share table": ALWAYS,
    "a method that the class body registers with": ALWAYS,
    "the name and the docstring that a member has": ALWAYS,
    "super that begins at the parents of another class": ALWAYS,
    "names of a class by its own name": ALWAYS,
    "environment that a carried file reads": ALWAYS,
    "statement about the class below it": ALWAYS,
    "item of a table set below, and read by the child": ALWAYS,
    "item of a table set below, and replaced by the child": ALWAYS,
    "list changed below, and read by the child": ALWAYS,
    "list changed below, and replaced by the child": ALWAYS,
    "class method called below, and read by the child": ALWAYS,
    "class method called below, and replaced by the child": ALWAYS,
    "table changed in another class body, and read by the child": ALWAYS,
    "table changed in another class body, and replaced by the child": ALWAYS,
    "list changed below, which a new class reads": ALWAYS,
    "list that the parent's body holds twice, asked for by super": ALWAYS,
    # Nothing flat does the same, or only something that no person would write.
    "dataclass whose child is none": ALWAYS,
    "kept mixin before and kept base behind": ALWAYS,
    "statement that the child's member hides": ALWAYS,
    "explicit parent as a value": ALWAYS,
    "class attribute that reads a global of the same name": MOSTLY,
    "super in __init_subclass__": ALWAYS,
    # One name cannot mean two things in one file; the author has to say which of them is meant.
    "import in the child under the parent's name": ALWAYS,
    "helper of the child imported under a parent's name": ALWAYS,
    "parent's function under an alias": ALWAYS,
    "redefined function calls the parent's under another name": ALWAYS,
    "two parents' helpers of one name": ALWAYS,
    "two variants with helpers of one name": ALWAYS,
    "two variants with constants of one name": ALWAYS,
    "two variants with classes of one name": ALWAYS,
    "two variants with copies of a helper that reads others": ALWAYS,
    "a variant of a variant with a helper of that name": ALWAYS,
    # A call that Python refuses at run time is refused when it is seen.
    "unknown keyword": HALF,
    "wrong number of arguments": HALF,
    # A class's own text does not tell what it inherits in its module from a base that stays there.
    "removed method": HALF,
    "removed attribute": HALF,
    "removed method that another one asks for": MOSTLY,
    "removed dunder": HALF,
    "partial methods": HALF,
    "operator in the class body": HALF,
    "class attribute through the parent's name": HALF,
    "setter added to the parent's property": HALF,
    "setter through the parent's property": HALF,
    "explicit parent as statement": SELDOM,
    "explicit parent of a staticmethod": SELDOM,
    "explicit parent of another method": SELDOM,
    "explicit parent": SELDOM,
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
