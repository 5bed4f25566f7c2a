"""Selective checkpointing keeps what it says; equal numbers would not show too much."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.runtime import checkpointing
from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases import select_cases
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.parts.part_check import replaced
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def bench():
    variant = BY_NAME["openai_checkpoint"]
    return CaseRunner(variant)


def verdicts(bench):
    every = select_cases(bench.variant, find_part_checks(bench.variant.checked_parts))
    return [bench.run(case).status for case in every if case.kind == "kept"]


def kept_by(wrong):
    """`is_kept` with another rule for what it is right about."""
    return lambda right: lambda operation, args, kwargs: wrong(
        right(operation, args, kwargs), operation
    )


WRONG = {
    "nothing": (lambda right, operation: False, ["FAIL", "FAIL"]),
    "no product of a batch": (
        lambda right, operation: right and "bmm" not in str(operation),
        ["FAIL", "FAIL"],
    ),
    # Of short rows scores are kept anyway.
    "every product of a batch": (
        lambda right, operation: right or "bmm" in str(operation),
        ["PASS", "FAIL"],
    ),
}


def test_what_is_kept_is_right(bench):
    assert verdicts(bench) == ["PASS", "PASS"]


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_what_is_kept_wrongly_is_seen(bench, wrong, message):
    with replaced(checkpointing, "is_kept", kept_by(wrong)):
        found = verdicts(bench)
    assert found == message
