"""Every case of tests/golden/merge: the flat class, byte for byte, or the exact problems.

`PATCHGEN_REFRESH=1 pytest tests/golden` writes what comes out; git shows what moved.
"""

import os
from pathlib import Path

import pytest

from tests.unit.compiler.plans import outcome_of, read_golden, write_golden

CASES = sorted(Path(__file__).with_name("merge").glob("*.py"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    golden = read_golden(path)
    outcome = outcome_of(golden)
    if os.environ.get("PATCHGEN_REFRESH"):
        write_golden(golden, outcome)
        return
    assert outcome[0] in golden.sections, f"{outcome[0]}:\n{outcome[1]}"
    assert golden.sections[outcome[0]] == outcome[1]
