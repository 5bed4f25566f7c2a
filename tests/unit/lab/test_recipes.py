"""Recipes: a variant that falls off its fast path fails, and kernels that no CPU has are run all the same."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.nn import functional as F  # noqa: E402

from patchgen.lab.bench import Bench  # noqa: E402
from patchgen.lab.cases import DROPOUT, Case  # noqa: E402
from patchgen.lab.claim import Scene, replaced  # noqa: E402
from patchgen.lab.kernels import attend, kernels_of  # noqa: E402
from patchgen.lab.pace import paced  # noqa: E402
from patchgen.lab.subject import subjects  # noqa: E402
from tests.toytree import REPOSITORY  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def bert():
    return Bench(subjects(REPOSITORY, ["bert_padding_free"])[0])


HEAD = "BertForMaskedLM"
PADDED = Scene(rows="right", train=True)


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
    with paced() as pace:
        step(torch.ones(()))
    assert pace.waited == waits


def test_attentions_are_counted():
    with paced() as pace:
        F.scaled_dot_product_attention(*(torch.ones(1, 1, 2, 4) for _ in range(3)))
    assert pace.attentions == 1


def test_a_step_by_the_written_kernels_is_the_parents(bert):
    case = Case("", "kernels", HEAD, "bfloat16", scene=PADDED, detail="flash-attn")
    assert bert.run(case).status == "PASS"


def test_the_branch_for_kernels_is_seen_to_be_wrong(bert):
    case = Case("", "kernels", HEAD, "bfloat16", scene=PADDED, detail="flash-attn")
    scaled = lambda was: lambda *given: was(*given[:-1], given[-1]._replace(scaling=1.0))  # noqa: E731
    with wrong(bert, "by_flash_attn", scaled):
        assert bert.run(case).status == "FAIL"
    dropping = lambda was: lambda *given: was(*given[:-1], given[-1]._replace(dropout=0.1))  # noqa: E731
    with wrong(bert, "by_flash_attn", dropping):
        assert bert.run(replace(case, scene=Scene(rows="right"))).status == "FAIL"


def test_written_kernels_refuse_what_kernels_refuse():
    states = [torch.ones(2, 1, 8) for _ in range(3)]
    with pytest.raises(RuntimeError, match="fp16 and bf16"):
        attend(*states, torch.ones(2, 2, dtype=torch.bool), None, 0.0)


def test_tensors_say_that_they_are_on_a_gpu_only_inside(bert):
    module = bert.pair(Case("", "", HEAD)).module
    with kernels_of(module, "flash_attn"):
        assert torch.ones(1).is_cuda and module.flash_attn_func is not None
    assert not torch.ones(1).is_cuda and module.flash_attn_func is None


@pytest.mark.parametrize(
    ("rate", "status"), [("attention_probs_dropout_prob", "PASS"), ("hidden_dropout_prob", "PASS")]
)
def test_dropout_moves_as_much_as_the_parents(bert, rate, status):
    case = Case("", "drops", HEAD, scene=Scene(rows="right", labels=False), detail=rate)
    assert bert.run(case).status == status


@pytest.mark.parametrize("factor", [0, 2])
def test_dropout_that_never_drops_or_twice_as_much_is_seen(bert, factor):
    case = Case("", "drops", HEAD, scene=Scene(rows="right", labels=False), detail="attention_probs_dropout_prob")
    other = lambda was: lambda *given: was(*given[:-1], given[-1]._replace(dropout=factor * given[-1].dropout))  # noqa: E731
    with wrong(bert, "by_sdpa", other):
        assert bert.run(case).status == "FAIL"


def test_queries_left_in_float32_by_autocast_are_off_the_fast_path():
    """As llama_packed was: no kernel takes them, and each text is a call of SDPA."""
    bench = Bench(subjects(REPOSITORY, ["llama_packed"])[0])
    head = "LlamaForCausalLM"
    case = Case("", "pace", head, scene=replace(PADDED, autocast=True), detail="autocast")
    assert bench.run(case).status == "PASS"
    with replaced(bench.pair(case).module, "in_autocast", lambda was: lambda states: states):
        result = bench.run(case)
    assert result.status == "FAIL" and "9 calls of attention, where the plain step has 3" in result.note


def test_what_is_known_is_a_warning(bert):
    case = Case("", "pace", HEAD, "bfloat16", scene=replace(PADDED, dropout=DROPOUT), detail="dropout")
    result = bert.run(case)
    assert result.status == "WARN" and "known: torch's kernels" in result.note
