"""Recipes: a variant that falls off its fast path fails."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.nn import functional as F

from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases import DROPOUT
from patchgen.verify.checks.context import Case
from patchgen.verify.observe.evidence import count_fast_path
from patchgen.verify.parts.part_check import Scenario, replaced
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def bert():
    return CaseRunner(BY_NAME["bert_padding_free"])


HEAD = "BertForMaskedLM"
PADDED = Scenario(rows="right", train=True, states=False)


@contextmanager
def wrong(bench, name, make):
    """A function of the generated module, made wrong."""
    module = sys.modules[bench.pair(Case("", "", HEAD)).module.__name__]
    with replaced(module, name, make):
        yield


@pytest.mark.parametrize(
    ("step", "waits"),
    [
        (lambda x: x.item(), 1),
        (lambda x: float(x), 1),
        (lambda x: bool(x > 0), 1),
        (lambda x: x.reshape(1).tolist(), 1),
        (lambda x: torch.ones(3)[torch.tensor([True, False, True])], 1),
        (lambda x: torch.ones(3).nonzero(), 1),
        (lambda x: torch.ones(3)[torch.tensor([0, 2])], 0),
        (lambda x: torch.where(x > 0, x, -x) + 1, 0),
    ],
)
def test_waits_are_counted(step, waits):
    with count_fast_path() as pace:
        step(torch.ones(()))
    assert pace.waited == waits


def test_attentions_are_counted():
    with count_fast_path() as pace:
        F.scaled_dot_product_attention(*(torch.ones(1, 1, 2, 4) for _ in range(3)))
    assert pace.attentions == 1


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


def test_one_call_for_each_text_is_off_the_fast_path(bert):
    """As padding-free attention once was under dropout."""
    case = Case("", "pace", HEAD, scenario=replace(PADDED, dropout=DROPOUT), detail="dropout")
    assert bert.run(case).status == "PASS"

    def text_by_text(was):
        def attend(attention, module, query, key, value, mask, *, dropout, **kwargs):
            output = was(attention, module, query, key, value, mask, dropout=dropout, **kwargs)
            for _ in range(2 if dropout else 0):
                was(attention, module, query, key, value, mask, dropout=dropout, **kwargs)
            return output

        return attend

    with wrong(bert, "attend_in_rows", text_by_text):
        result = bert.run(case)
    assert (
        result.status == "FAIL"
        and "9 calls of attention, where the plain step has 3" in result.note
    )


def test_a_packed_model_keeps_its_path_under_autocast():
    """Rotary positions leave queries and keys in float32, values are in bfloat16."""
    bench = CaseRunner(BY_NAME["llama_packed"])
    case = Case(
        "", "pace", "LlamaForCausalLM", scenario=replace(PADDED, autocast=True), detail="autocast"
    )
    result = bench.run(case)
    assert result.status == "PASS" and result.note.startswith("3 attentions"), result
