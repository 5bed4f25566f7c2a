"""The oracle itself: its packages run, do not vary, and two ways of inheriting agree on them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.oracle import generator, judge
from tests.oracle.case import Case

FEATURES = sorted(generator.FEATURES)


def test_every_package_runs(tmp_path: Path) -> None:
    for number, dimension in enumerate(generator.DIMENSIONS):
        case = generator.make(dimension, 0)
        records = judge.inherited(case, tmp_path / str(number))
        raised = [
            step
            for step, (outcome, *_) in records
            if isinstance(outcome, tuple) and outcome[:1] == ("raises",)
        ]
        assert len(raised) <= len(records) * 2 / 3, case.listing()


def test_a_seed_gives_one_package() -> None:
    assert [generator.make(d, 1) for d in FEATURES] == [generator.make(d, 1) for d in FEATURES]


def test_seeds_differ() -> None:
    assert len({case.files["toypack/modular_neo.py"] for case in generator.cases("wild", 50)}) == 50


@pytest.mark.parametrize("dimension", FEATURES)
def test_inheritance_inside_one_file_agrees(dimension: str, tmp_path: Path) -> None:
    for case in [c for c in generator.cases(dimension, 6) if not c.renames and not c.removed][:2]:
        difference = judge.compare(
            case, {"modeling_neo.py": _one_file(case)}, tmp_path / str(case.seed)
        )
        assert difference is None, f"{difference}\n{case.listing()}"


def _one_file(case: Case) -> str:
    """The parent module with the child class below its parent, which keeps its name only there."""
    parent, modular = case.files["toypack/modeling_toy.py"], case.files["toypack/modular_neo.py"]
    child = modular.partition("import")[2].partition("\n\n\n")[2]
    for name in ("upstream.ToyBlock", "Upstream"):
        child = child.replace(name, "_Parent")
    lines = parent.split("\n")
    block = next(
        n for n in ast.parse(parent).body if isinstance(n, ast.ClassDef) and n.name == "ToyBlock"
    )
    lines[block.end_lineno : block.end_lineno] = ["_Parent = ToyBlock", child]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "dimension", ["super in assign", "local names clash", "init replaces an attribute"]
)
def test_the_probe_tells_a_wrong_file(dimension: str, tmp_path: Path) -> None:
    case = next(c for c in generator.cases(dimension, 20) if not c.renames)
    parent = case.files["toypack/modeling_toy.py"]
    assert judge.compare(case, {"modeling_neo.py": parent}, tmp_path) is not None
