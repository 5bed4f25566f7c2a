"""The prediction for a rank equals what two processes hold; bytes sent equal the papers'."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.collectives import sum_exchanges
from patchgen.training.memory.figures import find_peak, reference_figures, summarize
from patchgen.training.memory.layout import Layout
from patchgen.training.memory.predict import predict_step
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.spawn import Job, measure_on_ranks
from patchgen.training.memory.target import Choice, find_target
from patchgen.training.memory.zero import predict
from tests.toytree import REPOSITORY

SETUP = Setup(batch=3, length=40)
WITHIN = 0.05
IN_A_PHASE = 0.06  # logits gathered by tensor parallelism, in a phase that is not the peak
FIGURES = ("weights", "buffers", "gradients", "optimizer", "exchange", "inputs", "saved", "peak")
WORDS = ("vocab_size", 98)
LLAMA = {"vocab_size": 98, "hidden_size": 32, "intermediate_size": 48, "layers": 3}
TOKENS = SETUP.batch * SETUP.length
FLOAT = 4


def job(name: str, engine: str, *changes: tuple[str, object], **more) -> Job:
    setup = replace(SETUP, layout=Layout(engine, 2), **more)
    return Job(name, Choice(tiny=True, changes=(WORDS, *changes)), setup, REPOSITORY)


QUICK = (
    job("llama_loss", "fsdp2", checkpoint="full"),
    job("llama_loss", "tp"),
    job("bert", "ddp"),
    job("mixtral", "fsdp2", ("num_local_experts", 4)),
    job("llama_moe", "ep", ("num_experts", 4)),
)
SLOW = (
    job("llama_loss", "fsdp2"),
    job("llama_loss", "ddp"),
    job("llama_loss", "tp", checkpoint="full"),
    job("llama", "fsdp2", checkpoint="full", precision="fsdp-mixed"),
    job("llama", "fsdp2", checkpoint="full", precision="amp-bf16"),
    job("llama", "fsdp2", checkpoint="full", precision="pure-bf16", accumulate=2),
    job("llama", "ddp", checkpoint="full", accumulate=2),
    job("bert", "fsdp2"),
    job("mixtral", "ddp"),
    job("mixtral", "ep", ("num_local_experts", 4)),
    job("mixtral", "tp", ("num_local_experts", 4)),
    job("mixtral", "tp+ep", ("num_local_experts", 4)),
    job("llama_moe", "fsdp2", ("num_experts", 4)),
    job("bert_moe", "ep", ("num_experts", 4)),
    # Rows that do not divide: the first rank holds more than the second.
    job("bert_moe", "fsdp2", ("num_experts", 3)),
    job("llama_loss", "tp", ("vocab_size", 99)),
)


def held_to(jobs: tuple[Job, ...]) -> None:
    apart = []
    for each, ranks in zip(jobs, measure_on_ranks(jobs, 2), strict=True):
        guess = summarize(predict_step(find_target(each.name, each.choice, REPOSITORY), each.setup))
        truth = reference_figures(ranks, each.setup.layout)
        assert truth.saved > 0
        pairs = {name: (getattr(guess, name), getattr(truth, name)) for name in FIGURES}
        phases = {phase: (most, dict(truth.peaks)[phase]) for phase, most in guess.peaks}
        for name, pair in (pairs | phases).items():
            if abs(pair[0] - pair[1]) > (IN_A_PHASE if name in phases else WITHIN) * pair[1]:
                apart.append((each.name, each.setup.describe(), name, pair))
    assert apart == []


@pytest.mark.slow
def test_two_processes():
    held_to(QUICK)


@pytest.mark.slow
def test_two_processes_of_other_engines():
    held_to(SLOW)


@functools.cache
def trace(engine: str, ranks: int, name: str = "llama_loss", *changes, **more):
    target = find_target(name, Choice(tiny=True, changes=(WORDS, *changes)), REPOSITORY)
    return predict(target, replace(SETUP, layout=Layout(engine, ranks), **more))


def sent(found, kind: str, phase: str) -> float:
    return sum(
        each.sent
        for each in sum_exchanges(found.exchanges)
        if (each.kind, each.phase) == (kind, phase)
    )


def test_ddp_sends_each_gradient_around_the_ring_twice():
    ranks = 8
    found = trace("ddp", ranks)
    whole = found.parameters * FLOAT
    assert sent(found, "all-reduce", "backward") == pytest.approx(
        2 * (ranks - 1) / ranks * whole, rel=0.01
    )
    assert {each.kind for each in found.exchanges if each.phase != "forward"} == {"all-reduce"}


def test_fsdp2_gathers_twice_and_scatters_once():
    """Except for the last norm and head, which are still gathered when backward starts."""
    ranks = 8
    found = trace("fsdp2", ranks, checkpoint="full", name="llama")
    share = (ranks - 1) / ranks * FLOAT
    kept = LLAMA["hidden_size"] * (LLAMA["vocab_size"] + 1)
    # Each weight's rows are filled up to a multiple of the ranks.
    assert sent(found, "all-gather", "forward") == pytest.approx(share * found.parameters, rel=0.03)
    assert sent(found, "reduce-scatter", "backward") == sent(found, "all-gather", "forward")
    assert sent(found, "all-gather", "backward") == pytest.approx(
        share * (found.parameters - kept), rel=0.03
    )


def test_fsdp2_in_bfloat16_gathers_half_and_scatters_all():
    wide, narrow = trace("fsdp2", 2), trace("fsdp2", 2, precision="fsdp-mixed")
    assert 2 * sent(narrow, "all-gather", "forward") == sent(wide, "all-gather", "forward")
    assert sent(narrow, "reduce-scatter", "backward") == sent(wide, "reduce-scatter", "backward")


def test_tensor_parallelism_sums_activations():
    """Megatron's two sums a layer going forward (arXiv:1909.08053, figure 3); five going back.

    Megatron has two there as well: it splits q, k and v as one matrix, and also the two of the FFN.
    transformers' plan sums the gradient of the input of each.
    """
    found = trace("tp", 2)
    one = 2 * (2 - 1) / 2 * TOKENS * LLAMA["hidden_size"] * FLOAT
    assert (
        sent(found, "all-reduce", "forward") == (2 * LLAMA["layers"] + 1) * one
    )  # and one of the embedding
    assert (
        sent(found, "all-reduce", "backward") == (5 * LLAMA["layers"] + 1) * one
    )  # and one of the head
    assert sent(found, "all-gather", "forward") == TOKENS * LLAMA["vocab_size"] * FLOAT / 2


def test_expert_parallelism_sends_each_token_to_its_experts_and_back():
    ranks = 4
    found = trace("ep", ranks, "mixtral", ("num_local_experts", 4), ("num_experts_per_tok", 2))
    one = (ranks - 1) / ranks * TOKENS * 2 * LLAMA["hidden_size"] * FLOAT
    layers = len([each for each in found.classes.values() if each == "MixtralDecoderLayer"])
    counts = (ranks - 1) / ranks * 4 * 8  # how many tokens come for each expert
    assert sent(found, "all-to-all", "forward") == layers * (2 * one + counts)
    assert sent(found, "all-to-all", "backward") == layers * 2 * one


@pytest.mark.parametrize("engine", ["fsdp2", "zero3"])
def test_shares_shrink_with_ranks_and_activations_do_not(engine):
    two, eight = (summarize(trace(engine, ranks)) for ranks in (2, 8))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(two, name) / getattr(eight, name) == pytest.approx(4, rel=0.1)
    assert two.saved == eight.saved


@pytest.mark.parametrize(
    ("engine", "spread"), [("zero1", {"optimizer"}), ("zero2", {"optimizer", "gradients"})]
)
def test_stages_of_zero(engine, spread):
    target = find_target("llama_loss", Choice(tiny=True, changes=(WORDS,)), REPOSITORY)
    alone, found = summarize(predict_step(target, SETUP)), summarize(trace(engine, 4))
    for name in ("weights", "gradients", "optimizer"):
        share = 4 if name in spread else 1
        assert getattr(alone, name) / getattr(found, name) == pytest.approx(share, rel=0.02)


def test_stage_three_and_fsdp2_send_as_much():
    """But for what FSDP2 keeps gathered."""
    zero, fsdp = trace("zero3", 4), trace("fsdp2", 4)
    assert sent(zero, "all-gather", "forward") == pytest.approx(
        sent(fsdp, "all-gather", "forward"), rel=0.03
    )
    assert sent(zero, "reduce-scatter", "backward") == pytest.approx(
        sent(fsdp, "reduce-scatter", "backward"), rel=0.03
    )


def test_deepspeeds_bf16_has_float32_beside_it():
    """12 bytes a weight, and 2 for each weight and each gradient (arXiv:1910.02054, 3.1)."""
    found = trace("zero1", 2, precision="fsdp-mixed")
    count = found.parameters
    summary = summarize(found)
    assert (summary.weights, summary.gradients) == (2 * count, 2 * count)
    assert summary.optimizer == pytest.approx(12 * count / 2, rel=0.01)


def test_what_is_gathered_is_distinguished_at_the_peak():
    roles = dict(find_peak(trace("fsdp2", 8, checkpoint="full", name="llama")).roles)
    assert {"weights", "gathered", "exchange"} <= roles.keys()


def test_ddp_keeps_buckets_as_large_as_gradients():
    found = summarize(trace("ddp", 8))
    assert found.exchange == pytest.approx(found.gradients, rel=0.01)
    assert summarize(trace("fsdp2", 2)).exchange == 0


def test_autocast_keeps_a_copy_of_all_that_fsdp2_gathers():
    """Until the end of the forward pass: a rank holds at least two bytes a weight."""
    found = trace("fsdp2", 8, precision="amp-bf16", checkpoint="full", name="llama")
    copies = sum(allocation.bytes for allocation in found.allocations if allocation.role == "casts")
    in_layers = found.parameters - 2 * LLAMA["vocab_size"] * LLAMA["hidden_size"]
    assert copies >= 2 * 0.95 * in_layers


def test_a_thousand_ranks_take_no_longer_than_two():
    summary = summarize(trace("fsdp2", 1024))
    assert summary.weights < summarize(trace("fsdp2", 2)).weights / 4


def test_a_value_is_set_by_its_second_name():
    for name in ("num_experts", "num_local_experts"):
        assert (
            find_target("qwen3_moe", Choice(tiny=True, changes=((name, 12),))).config.num_experts
            == 12
        )


def test_the_process_is_alone_again_afterwards():
    from torch import distributed
    from torch.distributed.device_mesh import DeviceMesh

    before = DeviceMesh.__getitem__, DeviceMesh.mesh
    trace("fsdp2", 2)
    assert not distributed.is_initialized()
    assert before == (DeviceMesh.__getitem__, DeviceMesh.mesh)


@pytest.mark.parametrize(
    ("engine", "ranks", "message"),
    [
        ("fsdp2", 1, "PG850 fsdp2 on 1 rank divides nothing"),
        ("auto", 4, "PG850 auto on 4 ranks divides nothing"),
        ("fdsp", 4, "PG830 fdsp is no engine"),
        ("fsdp2+tp,size=3", 4, "PG831 4 processes are not several groups of 3"),
    ],
)
def test_no_layout(engine, ranks, message):
    with pytest.raises(PatchgenError, match=message):
        Layout(engine, ranks)


@pytest.mark.parametrize(
    ("name", "engine", "ranks", "message"),
    [
        ("gpt2", "tp", 2, "PG852 .* has no `tp_plan`"),
        ("bert", "ep", 2, "PG852 .* has no `ep_plan`"),
        ("mixtral", "ep", 2, "PG852 .*Cannot evenly shard 5 experts across 2"),
    ],
)
def test_a_model_that_is_not_spread_so(name, engine, ranks, message):
    with pytest.raises(PatchgenError, match=message):
        trace(engine, ranks, name)


def test_what_is_computed_is_not_measured():
    with pytest.raises(PatchgenError, match="PG853 is computed, and nothing of it can be run here"):
        measure_on_ranks([job("llama_loss", "zero3")], 2)


def test_a_process_of_a_group_stands_for_no_rank():
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(PatchgenError, match="PG851 this process belongs to a group already"):
            trace("fsdp2", 6)
    finally:
        distributed.destroy_process_group()
