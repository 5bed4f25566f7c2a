"""Every variant of the gallery against its parent: a test for each case of `patchgen verify`, in float64 and float32.

A case that is `NONE` has nothing to compare and passes; the ones that every variant must have are named below.

Quick are, by one rule for all variants, what a short plan has: checkpoints, effects, and a step of training along the
closest route with full rows and with rows padded at either side.  Planted errors are quick in float32 for the first
variant of each part, by name; a bound stands beside the smallest of them in each variant all the same.  Every other
case is marked slow: `make test-all` runs it, and `patchgen verify --all` does, in bfloat16 too.
"""

import functools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verify.case_runner import Bench
from patchgen.verify.cases.select import Case, cases
from patchgen.verify.parts.combine import claims_of
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Subject, subjects
from tests.toytree import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

GALLERY = subjects(REPOSITORY)
PLAN = Plan(dtypes=("float64", "float32"))


@functools.cache
def planned(subject: Subject, short: bool = False) -> tuple[Case, ...]:
    try:
        return cases(subject, claims_of(subject.claimed), replace(PLAN, short=short))
    except LookupError:
        return ()  # test_every_part_has_a_claim fails


# The variant by which each part shows that its planted errors are seen.
SHOWN_BY = {part: subject.name for subject in reversed(GALLERY) for part in subject.claimed}


def is_quick(subject: Subject, case: Case) -> bool:
    if case.kind == "planted":
        return SHOWN_BY[case.detail.partition(":")[0]] == subject.name and case.dtype == "float32"
    return case in planned(subject, short=True)


def as_parameter(subject: Subject, case: Case):
    marks = [] if is_quick(subject, case) else [pytest.mark.slow]
    return pytest.param(subject, case, id=f"{subject.name} {case.name}", marks=marks)


@functools.cache
def bench(subject: Subject) -> Bench:
    return Bench(subject)


@pytest.mark.parametrize(
    ("subject", "case"),
    [as_parameter(subject, case) for subject in GALLERY for case in planned(subject)],
)
def test_case(subject, case):
    result = bench(subject).run(case)
    # What plans of the parent name, and is not there, is not there in the variant either.
    allowed = ("PASS", "NONE", "WARN") if case.kind == "plans" else ("PASS", "NONE")
    assert result.status in allowed, result


@pytest.mark.parametrize("subject", GALLERY, ids=lambda subject: subject.name)
def test_every_part_has_a_claim(subject):
    assert claims_of(subject.claimed), (
        "a variant without parts changes something that nothing is claimed of"
    )


@pytest.mark.parametrize("subject", GALLERY, ids=lambda subject: subject.name)
def test_what_matters_most_is_compared(subject):
    """A head that cannot be built would be NONE throughout, and nothing would be proven."""
    by_name = {case.name: case for case in planned(subject)}
    head = subject.heads[0]
    results = [bench(subject).run(by_name[f"{head} {dtype} full closest"]) for dtype in PLAN.dtypes]
    assert any(result.status == "PASS" and result.seen for result in results), results


def test_the_quick_cases_are_of_every_variant_and_part():
    quick = [
        (subject, case)
        for subject in GALLERY
        for case in planned(subject)
        if is_quick(subject, case)
    ]
    assert {subject for subject, case in quick if case.kind == "numbers"} == set(GALLERY)
    parts = {part for subject in GALLERY for part in subject.claimed}
    assert {case.detail.partition(":")[0] for _, case in quick if case.kind == "planted"} == parts
