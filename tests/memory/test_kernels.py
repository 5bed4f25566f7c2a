"""What is kept where CUDA's kernels run, on a torch that knows only the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.nn import functional as F

from patchgen.training.memory.cuda_kernels import use_kernels
from patchgen.training.memory.figures import (
    find_peak,
    group_activations,
    saved_allocations,
    summarize,
)
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Choice, find_target
from tests.toytree import REPOSITORY

SETUP = Setup(batch=2, length=64, device="cuda")
without_cuda = pytest.mark.skipif(
    torch.backends.cuda.is_built(), reason="this torch has CUDA's own kernels"
)


def trace(name, setup, **changes):
    return predict_step(
        find_target(name, Choice(tiny=True, changes=tuple(changes.items())), REPOSITORY), setup
    )


@without_cuda
def test_dropout_keeps_one_byte_for_each_element():
    with use_kernels("cuda"):
        given = torch.ones(5, requires_grad=True)
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: seen.append(tensor) or tensor, lambda t: t
        ):
            F.dropout(given, 0.5)
    assert [tensor.dtype for tensor in seen] == [torch.bool]


@pytest.mark.slow
@without_cuda
def test_attention_with_dropout_keeps_no_weights():
    """On the CPU it does: fused attention has no dropout there."""
    grown = {}
    for device in ("cpu", "cuda"):
        one, two = (
            sum(
                kind.bytes
                for kind in group_activations(
                    trace("bert", replace(SETUP, device=device, length=length))
                )
            )
            for length in (32, 64)
        )
        grown[device] = two / one
    assert grown["cuda"] <= 2
    assert grown["cpu"] > 2.2


@without_cuda
def test_a_mask_is_added_to_scores_and_padded():
    """A row of scores begins at a multiple of 16 elements."""
    with use_kernels("cuda"):
        query = torch.empty(2, 4, 5, 8, requires_grad=True)
        mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
        seen = []
        with (
            torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True),
            torch.autograd.graph.saved_tensors_hooks(
                lambda tensor: seen.append(tensor) or tensor, lambda t: t
            ),
        ):
            out = F.scaled_dot_product_attention(query, query, query, attn_mask=mask, dropout_p=0.1)
    assert out.shape == query.shape
    assert any(tensor.untyped_storage().nbytes() == 2 * 1 * 5 * 16 * 4 for tensor in seen)


@without_cuda
def test_autocast_computes_softmax_in_float32():
    found = {}
    for device in ("cpu", "cuda"):
        setup = replace(SETUP, device=device, precision="amp-bf16", attention="eager")
        step = trace("bert", setup)
        found[device] = {
            each.bytes
            for each in saved_allocations(step.allocations, step.starts)
            if each.maker == "aten._softmax.default"
        }
    (narrow,), (wide,) = found["cpu"], found["cuda"]
    assert wide >= 2 * narrow  # and whole blocks of an allocator


def test_an_allocator_gives_whole_blocks():
    assert summarize(trace("bert", SETUP)).inputs % 512 == 0
    assert summarize(trace("bert", replace(SETUP, batch=1, length=3))).inputs == 2 * 512


@without_cuda
def test_functions_are_torch_s_own_afterwards():
    before = (
        F.dropout,
        F.scaled_dot_product_attention,
        torch.softmax,
        torch.Tensor.softmax,
        F.rms_norm,
    )
    with use_kernels("cuda"):
        assert before[0] is not F.dropout
    assert before == (
        F.dropout,
        F.scaled_dot_product_attention,
        torch.softmax,
        torch.Tensor.softmax,
        F.rms_norm,
    )
    assert "softmax" not in torch.Tensor.__dict__


def test_roles_at_the_peak_are_all_that_is_held():
    found = trace("llama", replace(SETUP, checkpoint="full", precision="amp-bf16"))
    highest = find_peak(found)
    assert highest.bytes == summarize(found).peak
    assert {"weights", "optimizer", "activations"} <= highest.roles.keys()


def test_what_a_checkpoint_computes_again_is_distinguished():
    setup = replace(SETUP, batch=8)
    whole, layers = (
        find_peak(trace("llama", replace(setup, checkpoint=policy))).roles
        for policy in ("none", "full")
    )
    assert "recomputed" not in whole
    assert layers["recomputed"] > layers["activations"]


@without_cuda
@pytest.mark.parametrize("weight", [True, False])
def test_a_norm_keeps_its_input_and_a_number_per_row(weight):
    """Also without a weight, as variants call it."""
    states = torch.empty(3, 5, 8, requires_grad=True)
    seen = []
    with (
        use_kernels("cuda"),
        torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t),
    ):
        F.rms_norm(states, (8,), torch.ones(8, requires_grad=True) if weight else None)
    assert sorted(each.numel() for each in seen) == [*([8] if weight else []), 15, 120]
