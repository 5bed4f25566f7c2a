"""The parts, each with its code, its writer and its check."""

from pathlib import Path

import pytest

from patchgen.author.declare.registry import OFFERED, PARTS, find_part_checks, writers

CODE = {path.stem for path in Path("patchgen/parts").iterdir()} - {"__init__", "__pycache__"}


def test_all_code_that_variants_share_is_of_a_part():
    assert CODE <= set(PARTS)


SINGLES = {name: part for name, part in PARTS.items() if not part.sum_of}


@pytest.mark.parametrize("part", SINGLES.values(), ids=SINGLES)
def test_each_part_has_its_own_check(part):
    pytest.importorskip("torch")
    (check,) = find_part_checks([part.name])
    assert check.part == part.name


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_no_part_is_there_for_nothing(part):
    """Code, or a line that the gallery changes, and what `new` needs to offer it."""
    assert part.name in CODE or part.mark or part.sum_of
    assert bool(part.help) is (part in OFFERED) is (bool(part.sum_of) or part.writer is not None)
    assert set(part.sum_of) <= set(writers()) and set(part.covers) <= set(PARTS)


@pytest.mark.parametrize("name", ["sdpaa", "fast"])
def test_what_is_no_part_has_no_check(name):
    with pytest.raises(LookupError, match=f"{name} is no part"):
        find_part_checks(["sdpa", name])
