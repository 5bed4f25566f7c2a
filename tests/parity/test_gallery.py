"""Every variant of the gallery against its parent: a test for each case of `patchgen verify`.

A case that is `NONE` has nothing to compare and passes; the ones that every variant must have are
named below.

Quick are, by one rule for all variants, what a short plan has in float64: checkpoints, effects, and
a step of training along the closest route with full rows and with rows padded at either side.  The
first variant of each part, by name, has them in float32 too, with errors planted in attention.
Slow are all cases in float32, but each part is compiled and timed in one variant alone: `make
test-all` runs them.  `patchgen verify --all` runs the rest, in float64 and bfloat16 too.
"""

import functools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.checks.context import Case
from patchgen.verifying.report import Result
from patchgen.verifying.variants import Plan, Variant
from tests.gallery import GALLERY

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SHORT = Plan(dtypes=("float64", "float32"))
WHOLE = Plan(dtypes=("float32",))


@functools.cache
def planned(variant: Variant, plan: Plan) -> tuple[Case, ...]:
    try:
        return select_cases(variant, find_part_checks(variant.checked_parts), plan)
    except LookupError:
        return ()  # test_every_part_has_a_check fails


# The variant by which each part shows that its planted errors are seen.
SHOWN_BY = {part: variant.name for variant in reversed(GALLERY) for part in variant.checked_parts}


def is_short(variant: Variant, case: Case) -> bool:
    """Of the first head: loading, effects, one training step, and planted errors in float32."""
    if case.head != variant.heads[0]:
        return False
    if case.kind == "numbers":
        rows, _, way = case.name.rpartition(" ")
        return way == "closest" and not rows.endswith(" packed")
    if case.kind == "planted":
        return case.dtype == "float32"
    return case.kind in ("checkpoints", "fresh", "effect", "kept")


def is_quick(variant: Variant, case: Case) -> bool:
    if not is_short(variant, case):
        return False
    if case.kind == "planted":
        return SHOWN_BY[case.detail.partition(":")[0]] == variant.name
    if case.kind == "numbers" and case.dtype == "float32":
        return variant.name in SHOWN_BY.values()
    return True


# Kinds of cases that compile.
LONG = ("compiled",)


def is_slow(variant: Variant, case: Case) -> bool:
    return case.kind not in LONG or variant.name in SHOWN_BY.values()


def as_parameter(variant: Variant, case: Case, quick: bool):
    marks = [] if quick else [pytest.mark.slow]
    return pytest.param(variant, case, id=f"{variant.name} {case.name}", marks=marks)


def parameters():
    """Each case once: the quick ones, then the slow ones."""
    for variant in GALLERY:
        quick = [case for case in planned(variant, SHORT) if is_quick(variant, case)]
        names = {case.name for case in quick}
        slow = [
            case
            for case in planned(variant, WHOLE)
            if case.name not in names and is_slow(variant, case)
        ]
        yield from (as_parameter(variant, case, True) for case in quick)
        yield from (as_parameter(variant, case, False) for case in slow)


@functools.cache
def bench(variant: Variant) -> CaseRunner:
    return CaseRunner(variant)


@functools.cache
def named(variant: Variant) -> dict[str, Case]:
    short = [case for case in planned(variant, SHORT) if is_short(variant, case)]
    return {case.name: case for case in (*planned(variant, WHOLE), *short)}


@functools.cache
def result_of(variant: Variant, name: str) -> Result:
    """What the case of that name comes to; each is run once."""
    return bench(variant).run(named(variant)[name])


@pytest.mark.parametrize(("variant", "case"), tuple(parameters()))
def test_case(variant, case):
    result = result_of(variant, case.name)
    # What plans of the parent name, and is not there, is not there in the variant either.
    allowed = ("PASS", "NONE", "WARN") if case.kind == "plans" else ("PASS", "NONE")
    assert result.status in allowed, result


@pytest.mark.parametrize("variant", GALLERY, ids=lambda variant: variant.name)
def test_every_part_has_a_check(variant):
    assert find_part_checks(variant.checked_parts), (
        "a variant without parts changes something that no part checks"
    )


@pytest.mark.parametrize("variant", GALLERY, ids=lambda variant: variant.name)
def test_what_matters_most_is_compared(variant):
    """A head that cannot be built would be NONE throughout, and nothing would be proven."""
    cases = [f"{variant.heads[0]} {dtype} full closest" for dtype in SHORT.dtypes]
    # The first is enough, unless its kernels are only in the second.
    results = (result_of(variant, name) for name in cases)
    assert any(result.status == "PASS" for result in results)


def test_the_quick_cases_are_of_every_variant_and_part():
    quick = [
        (variant, case)
        for variant in GALLERY
        for case in planned(variant, SHORT)
        if is_quick(variant, case)
    ]
    assert {variant for variant, case in quick if case.kind == "numbers"} == set(GALLERY)
    parts = {part for variant in GALLERY for part in variant.checked_parts}
    assert {case.detail for _, case in quick if case.kind == "effect"} == parts
    planted = {case.detail.partition(":")[0] for _, case in quick if case.kind == "planted"}
    assert planted == {"sdpa", "attention_interface"} & parts
