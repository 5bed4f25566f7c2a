"""One case from its first entry to its last round, as on a GPU, with a small model on the CPU."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import AttentionInterface

from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.competitors import mask_free
from patchgen.training.bench.entry import CHECKPOINTED, CUDNN, SDPA, Entry, variant
from patchgen.training.bench.result import from_json
from patchgen.training.bench.run_case import Budget, run_case

SMALL = (
    ("vocab_size", 64),
    ("hidden_size", 32),
    ("intermediate_size", 48),
    ("num_hidden_layers", 2),
    ("num_attention_heads", 4),
    ("num_key_value_heads", 2),
    ("head_dim", 8),
)


def too_large(*_args, **_kwargs):
    raise torch.OutOfMemoryError("so much cannot be allocated")


def breaks_the_device(*_args, **_kwargs):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def takes_nothing(*_args, **_kwargs):
    raise RuntimeError("No available kernel. Aborting execution.")


AttentionInterface.register("takes_nothing", takes_nothing)
AttentionInterface.register("too_large", too_large)
AttentionInterface.register("breaks_the_device", breaks_the_device)
CASE = Case(
    id="S",
    group="s",
    about="a small Llama",
    model="llama",
    head="LlamaForCausalLM",
    config=SMALL,
    shape=Shape(3, 16),
    task="causal",
    entries=(
        SDPA,
        variant("llama_loss"),
        CHECKPOINTED,
        Entry("one row, float32", rows=1, precision="float32"),
        CUDNN,
        Entry("too large", attention="too_large"),
        Entry("no kernel", attention="takes_nothing"),
        Entry("no such optimizer", optimizer="best"),
        variant("llama_sqpa"),
    ),
    block="model.layers.0.mlp",
    rounds=((1, 2), (1, 1), (1, 1)),
)


def run_entries(case: Case, skip=(), seconds: float = 100.0, tiny: bool = False) -> list[dict]:
    answers: list[dict] = []
    run_case(
        case,
        "cpu",
        tiny,
        skip,
        Budget(time.monotonic() + seconds),
        lambda **answer: answers.append(answer),
    )
    return answers


def results(answers):
    return {
        answer["entry"]: from_json(answer["result"]) for answer in answers if "result" in answer
    }


@pytest.fixture(scope="module")
def answers():
    return run_entries(CASE)


def test_each_that_runs_has_all_of_its_rounds(answers):
    found = results(answers)
    for name in ("sdpa", "llama_loss", "sdpa + checkpointing", "one row, float32"):
        assert found[name].status == "ok", found[name].note
        assert [len(run_round) for run_round in found[name].rounds] == [2, 1, 1]
        assert len(found[name].block) == 10 and found[name].counts
    assert found["sdpa"].tokens == 48 and found["one row, float32"].tokens == 16


def test_what_cannot_run_says_why_and_stops_nobody(answers):
    found = results(answers)
    assert found["too large"].status == "does not fit"
    assert found["no kernel"].status == "unavailable"
    assert found["sdpa, cuDNN forced"].note == "the cudnn backend needs a CUDA device"
    assert found["no such optimizer"].note == "ValueError: no optimizer is called best"
    assert found["llama_sqpa"].status == "failed" and "llama_loss" in found["llama_sqpa"].note
    assert answers[-1] == {"case": "S", "done": True}


def test_rounds_go_there_and_back(answers):
    begun = [answer["entry"] for answer in answers if answer.get("begun") and answer["entry"]]
    names = [one.name for one in CASE.entries]
    assert begun[: len(names)] == names
    ran = ["sdpa", "llama_loss", "sdpa + checkpointing", "one row, float32"]
    assert begun[len(names) :] == [*reversed(ran), *ran]


def test_references_are_those_of_the_rows(answers):
    answer = [one["reference"] for one in answers if "reference" in one]
    assert [one["rows"] for one in answer] == [None, 1]
    assert answer[0]["loss"] != answer[1]["loss"]


def test_weights_begin_the_same_in_every_round(answers):
    found = results(answers)
    assert found["sdpa"].losses == pytest.approx(found["llama_loss"].losses, rel=1e-4)
    assert found["sdpa"].losses[1] < found["sdpa"].losses[0], "it learns"
    assert 0 < found["sdpa"].deviation[1] < 3e-2, "bfloat16 beside float32"
    assert found["one row, float32"].deviation[1] < 1e-5


def test_no_memory_in_a_further_round_takes_the_first_one_not_away():
    answers: list[dict] = []

    def first(module, query, key, value, mask, **more):
        if any("result" in answer for answer in answers):
            too_large()
        return mask_free(module, query, key, value, mask, **more)

    AttentionInterface.register("too_large_later", first)
    case = replace(CASE, entries=(Entry("later", attention="too_large_later"),), block="")
    run_case(
        case,
        "cpu",
        False,
        (),
        Budget(time.monotonic() + 100),
        lambda **answer: answers.append(answer),
    )
    (found,) = results(answers).values()
    assert (found.status, found.note) == ("partial", "there was no memory left for a further round")
    assert (
        [len(run_round) for run_round in found.rounds] == [2]
        and found.counts
        and answers[-1] == {"case": "S", "done": True}
    )


def test_what_breaks_the_device_ends_the_process():
    """Nothing that ran after it in this process would count."""
    case = replace(CASE, entries=(SDPA, Entry("breaks", attention="breaks_the_device")))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run_entries(case, tiny=True)


def test_without_time_nothing_runs_and_all_are_reported():
    found = results(run_entries(CASE, seconds=0.0))
    assert {result.status for result in found.values()} == {"no time"} and len(found) == len(
        CASE.entries
    )


def test_what_is_skipped_is_not_begun():
    case = replace(CASE, entries=CASE.entries[:2])
    assert list(results(run_entries(case, skip={"sdpa"}, tiny=True))) == ["llama_loss"]
