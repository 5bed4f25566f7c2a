"""Every variant of the gallery against its parent: a test for each case of `patchgen verify`, in float64 and float32.

A case that is `NONE` has nothing to compare and passes; the ones that every variant must have are named below.
"""

import functools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.lab.bench import Bench  # noqa: E402
from patchgen.lab.cases import Case, cases  # noqa: E402
from patchgen.lab.claimed import claims_of  # noqa: E402
from patchgen.lab.plan import Plan  # noqa: E402
from patchgen.lab.subject import Subject, subjects  # noqa: E402
from tests.toytree import REPOSITORY  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

GALLERY = subjects(REPOSITORY)
PLAN = Plan(dtypes=("float64", "float32"))


def planned(subject: Subject) -> tuple[Case, ...]:
    try:
        return cases(subject, claims_of(subject.parts), PLAN)
    except LookupError:
        return ()  # test_every_part_has_a_claim fails


def as_parameter(subject: Subject, case: Case):
    # A compilation takes ten seconds.
    marks = [pytest.mark.slow] if case.kind == "compiled" else []
    return pytest.param(subject, case, id=f"{subject.name} {case.name}", marks=marks)


@functools.cache
def bench(subject: Subject) -> Bench:
    return Bench(subject)


@pytest.mark.parametrize(
    ("subject", "case"), [as_parameter(subject, case) for subject in GALLERY for case in planned(subject)]
)
def test_case(subject, case):
    result = bench(subject).run(case)
    assert result.status in ("PASS", "NONE"), result


@pytest.mark.parametrize("subject", GALLERY, ids=lambda subject: subject.name)
def test_every_part_has_a_claim(subject):
    assert claims_of(subject.parts), "a variant without parts changes something that nothing is claimed of"


@pytest.mark.parametrize("subject", GALLERY, ids=lambda subject: subject.name)
def test_what_matters_most_is_compared(subject):
    """A head that cannot be built would be NONE throughout, and nothing would be proven."""
    by_name = {case.name: case for case in planned(subject)}
    head = subject.heads[0]
    results = [bench(subject).run(by_name[f"{head} {dtype} full closest"]) for dtype in PLAN.dtypes]
    assert any(result.status == "PASS" and result.seen for result in results), results
