"""Every variant of the gallery against its parent: a test for each case of `patchgen verify`, in float64 and float32.

A case that is `NONE` has nothing to compare and passes; the ones that every variant must have are
named below.

Quick are, by one rule for all variants, what a short plan has: checkpoints, effects, and a step of
training along the closest route with full rows and with rows padded at either side.  Planted errors
are quick in float32 for the first variant of each part, by name; a bound stands beside the smallest
of them in each variant all the same.  Every other case is marked slow: `make test-all` runs it, and
`patchgen verify --all` does, in bfloat16 too.
"""

import functools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases.case import Case
from patchgen.verify.cases.select import select_cases
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant, find_variants
from tests.toytree import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

GALLERY = find_variants(REPOSITORY)
PLAN = Plan(dtypes=("float64", "float32"))


@functools.cache
def planned(variant: Variant, short: bool = False) -> tuple[Case, ...]:
    try:
        return select_cases(
            variant, find_part_checks(variant.checked_parts), replace(PLAN, short=short)
        )
    except LookupError:
        return ()  # test_every_part_has_a_claim fails


# The variant by which each part shows that its planted errors are seen.
SHOWN_BY = {part: variant.name for variant in reversed(GALLERY) for part in variant.checked_parts}


def is_quick(variant: Variant, case: Case) -> bool:
    if case.kind == "planted":
        return SHOWN_BY[case.detail.partition(":")[0]] == variant.name and case.dtype == "float32"
    return case in planned(variant, short=True)


def as_parameter(variant: Variant, case: Case):
    marks = [] if is_quick(variant, case) else [pytest.mark.slow]
    return pytest.param(variant, case, id=f"{variant.name} {case.name}", marks=marks)


@functools.cache
def bench(variant: Variant) -> CaseRunner:
    return CaseRunner(variant)


@pytest.mark.parametrize(
    ("variant", "case"),
    [as_parameter(variant, case) for variant in GALLERY for case in planned(variant)],
)
def test_case(variant, case):
    result = bench(variant).run(case)
    # What plans of the parent name, and is not there, is not there in the variant either.
    allowed = ("PASS", "NONE", "WARN") if case.kind == "plans" else ("PASS", "NONE")
    assert result.status in allowed, result


@pytest.mark.parametrize("variant", GALLERY, ids=lambda variant: variant.name)
def test_every_part_has_a_claim(variant):
    assert find_part_checks(variant.checked_parts), (
        "a variant without parts changes something that no part checks"
    )


@pytest.mark.parametrize("variant", GALLERY, ids=lambda variant: variant.name)
def test_what_matters_most_is_compared(variant):
    """A head that cannot be built would be NONE throughout, and nothing would be proven."""
    by_name = {case.name: case for case in planned(variant)}
    head = variant.heads[0]
    results = [bench(variant).run(by_name[f"{head} {dtype} full closest"]) for dtype in PLAN.dtypes]
    assert any(result.status == "PASS" and result.seen for result in results), results


def test_the_quick_cases_are_of_every_variant_and_part():
    quick = [
        (variant, case)
        for variant in GALLERY
        for case in planned(variant)
        if is_quick(variant, case)
    ]
    assert {variant for variant, case in quick if case.kind == "numbers"} == set(GALLERY)
    parts = {part for variant in GALLERY for part in variant.checked_parts}
    assert {case.detail.partition(":")[0] for _, case in quick if case.kind == "planted"} == parts
