"""What a part refuses on purpose is nothing to compare; any other ValueError is a failure."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import patchgen.runtime.varlen as varlen
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import CALLS, compare_numbers
from patchgen.verifying.inputs.arguments import FOUR_AXES
from patchgen.verifying.parts.part_check import replaced
from patchgen.verifying.variants import find_variants
from tests.toytree import REPOSITORY

CASE = compare_numbers("LlamaModel", "float64", FOUR_AXES, CALLS[FOUR_AXES])


@pytest.fixture(scope="module")
def packed():
    return CaseRunner(find_variants(REPOSITORY, ["llama_packed"])[0])


def test_a_mask_that_text_lengths_cannot_say_is_refused_on_purpose(packed):
    result = packed.run(CASE)
    assert result.status == "NONE" and "takes a mask of (rows, tokens)" in result.note


def test_another_error_in_the_same_place_fails(packed):
    def broken(was):
        def refuse(*args):
            raise ValueError("rows is negative")

        return refuse

    padded = compare_numbers("LlamaModel", "float64", "right", CALLS["mask of floats"])
    with replaced(varlen, "attend", broken):
        result = packed.run(padded)
    assert result.status == "FAIL" and "rows is negative" in result.note
