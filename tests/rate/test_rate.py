"""The FLOPs of a model, counted on shapes, and the FLOP/s of a device, for MFU."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from benchmarks.bench.cases import load_cases
from benchmarks.bench.models import class_of, make_config
from patchgen.runtime.classes import module_of
from patchgen.runtime.variants import find_variant
from patchgen.training.callback import VariantCallback, _flops_per_token
from patchgen.training.loop.texts import text_lengths
from patchgen.training.parallel.engine import Engine, Launch
from patchgen.training.rate.flops import (
    ForwardCost,
    count_forward_flops,
    count_pairs,
)
from patchgen.training.rate.peak import product_flops

LLAMA = LlamaConfig(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)


CASES = {case.id: case for case in load_cases()}


def of_a_token(case, share=1.0) -> float:
    """Return the FLOPs for a token of a full row, of which so many are predicted."""
    forward = count_forward_flops(class_of(case, case.baseline), make_config(case), case.length)
    length, causal = case.length, case.task == "causal"
    return (
        forward.step(tokens=length, labelled=share * length, pairs=length**2, causal=causal)
        / length
    )


@pytest.mark.parametrize(
    ("case", "share", "operations"),
    [
        pytest.param("B1", 0.15, 588e6, id="BERT-base, head on 15 of 100"),
        pytest.param("L1", 1.0, 8.22e9, id="Llama-1B at 4096"),
        pytest.param("X2", 0.15, 588e6, id="MPNet-base, whose positions begin at 2"),
    ],
)
def test_operations_of_a_token(case, share, operations):
    """docs/benchmarks.md derives the figures by hand; large models are counted on shapes."""
    assert of_a_token(CASES[case], share) == pytest.approx(operations, rel=0.01)


def test_experts_count_as_many_as_a_token_chooses():
    case = CASES["M1"]
    config = make_config(case)
    inner, chosen = config.moe_intermediate_size, config.num_experts_per_tok
    routed = 6 * 3 * config.hidden_size * inner * chosen * config.num_hidden_layers
    more = replace(case, config={**case.config, "num_experts_per_tok": 2 * chosen})
    assert of_a_token(more) - of_a_token(case) == pytest.approx(routed)


def test_is_what_torch_counts_in_a_real_forward():
    """Without causality all of attention counts, as in torch's own counter."""
    length = 24
    model = LlamaForCausalLM(LLAMA).eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        model(torch.zeros(1, length, dtype=torch.long))
    found = count_forward_flops(LlamaForCausalLM, LLAMA, length)
    flops = found.step(tokens=length, labelled=length, pairs=length**2, causal=False)
    assert flops == 3 * counter.get_total_flops()
    assert found.step(tokens=length, labelled=length, pairs=length**2, causal=True) < flops


def test_layers_that_share_weights_count_each_time():
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
    }
    albert = count_forward_flops(
        AlbertForMaskedLM, AlbertConfig(vocab_size=96, embedding_size=32, **shape), 16
    )
    bert = count_forward_flops(BertForMaskedLM, BertConfig(vocab_size=96, **shape), 16)
    mapping = 2 * 32 * 32  # of ALBERT's embeddings, and no pooler's
    assert albert.body - mapping == bert.body and albert.between == bert.between


def test_a_variant_counts_as_its_parent():
    variant = module_of(find_variant("llama_loss")).LlamaForCausalLM
    assert count_forward_flops(variant, LLAMA, 16) == count_forward_flops(
        LlamaForCausalLM, LLAMA, 16
    )


def test_what_shapes_do_not_tell_is_not_known():
    config = BertConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, max_position_embeddings=4
    )
    assert count_forward_flops(BertForMaskedLM, config, 64) is None


def test_train_and_bench_say_the_same():
    rows = [{"input_ids": [0] * 64, "labels": [-100] + [0] * 63}] * 2
    model = LlamaForCausalLM(LLAMA)
    forward = count_forward_flops(LlamaForCausalLM, LLAMA, 64)
    step = forward.step(tokens=64, labelled=63, pairs=64**2, causal=True)
    assert _flops_per_token(model, rows) == pytest.approx(step / 64)


def test_packed_texts_do_not_see_each_other():
    packed = {
        "input_ids": [5, 6, 7, 8, 9, 0, 0],
        "position_ids": [0, 1, 2, 0, 1, 0, 1],
        "labels": [-100, 6, 7, -100, 9, -100, -100],
    }
    assert text_lengths(packed) == [3, 2, 2] and count_pairs(text_lengths(packed)) == 17
    assert text_lengths({"input_ids": [1] * 7}) == [7]


def test_frozen_weights_need_no_gradient():
    forward, step = (
        ForwardCost(10, 1, 2),
        {"tokens": 5, "labelled": 5, "pairs": 25, "causal": False},
    )
    assert forward.step(**step) == 3 * (10 + 1) * 5 + 3 * 50
    assert forward.step(**step, frozen=True) == 2 * (10 + 1) * 5 + 3 * 50


def test_rates():
    callback = VariantCallback.__new__(VariantCallback)
    callback.trainer = SimpleNamespace(args=SimpleNamespace(device=torch.device("cpu")))
    callback.engine = Engine("ddp", Launch(2))
    callback.rates = None
    assert "mfu" not in callback.figures(100)
    callback.rates = (1e9, 1e12)
    assert callback.figures(100)["mfu"] == 0.05


def test_the_runs_of_a_process_are_compared_with_one_product():
    """Two measurements of a product are hardly ever equal."""
    found = {product_flops("cpu", "float32", tf32=False) for _ in range(3)}
    assert len(found) == 1 and found.pop() > 1e6
