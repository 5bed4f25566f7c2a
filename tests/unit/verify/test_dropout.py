"""Dropout that is drawn in another order moves a variant as far as its parent."""

import sys
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.checks.context import Case
from patchgen.verifying.parts.part_check import Scenario, replaced
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def bert():
    return CaseRunner(BY_NAME["bert_padding_free"])


HEAD = "BertForMaskedLM"


@contextmanager
def wrong(bench, name, make):
    """A function of the generated module, made wrong."""
    module = sys.modules[bench.pair(Case("", "", HEAD)).module.__name__]
    with replaced(module, name, make):
        yield


@pytest.mark.parametrize(
    ("rate", "status"), [("attention_probs_dropout_prob", "PASS"), ("hidden_dropout_prob", "PASS")]
)
def test_dropout_moves_as_much_as_the_parents(bert, rate, status):
    case = Case(
        "", "drops", HEAD, scenario=Scenario(rows="right", labels=False, states=False), detail=rate
    )
    assert bert.run(case).status == status


@pytest.mark.parametrize("factor", [0, 2])
def test_dropout_that_never_drops_or_twice_as_much_is_seen(bert, factor):
    case = Case(
        "",
        "drops",
        HEAD,
        scenario=Scenario(rows="right", labels=False, states=False),
        detail="attention_probs_dropout_prob",
    )

    def other(was):
        return lambda *given, dropout, **kwargs: was(*given, dropout=factor * dropout, **kwargs)

    with wrong(bert, "attend_in_rows", other):
        assert bert.run(case).status == "FAIL"
