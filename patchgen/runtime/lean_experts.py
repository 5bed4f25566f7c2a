"""The experts implementation "lean": experts that keep one matrix product for the backward pass.

    import patchgen.runtime
    model = AutoModel.from_pretrained(..., experts_implementation="lean")

It runs the experts of every model with transformers' interface of experts.  A ValueError refuses
biases, a norm of the outputs, an activation with parameters, and dropout in training.

transformers' "grouped_mm" keeps 2D + 4F numbers for each pair of a token and an expert: the token's
copy, the product with gate and up, the activation, the activation times up, and the result.  "lean"
keeps 2F: the product with gate and up.  It gathers the tokens and computes the activation again,
which needs no matrix product.  The result is not kept, because the product with `down_proj` is
linear: the gradient of a router's weight is an inner product of what goes in.

**Rounding.**  The forward pass rounds as that of "grouped_mm" does, so that later routers choose
the same experts; the backward pass rounds elsewhere.  It depends on no order of additions: the
gradient of a token is gathered, where that of "grouped_mm" is scattered.

Under `torch.compile` the compiler gets the formula, and decides what is worth keeping.  torch
raises an error for second derivatives.  Axes are those of `patchgen.runtime.grouped_gemm`; G is
what goes into the gate: 2F, or F without a gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from patchgen.runtime.grouped_gemm import (
    Pairs,
    grouped_gemm,
    grouped_linear,
    grouped_outer,
    sort_pairs,
)

NAME = "lean"
Gate = Callable[[Tensor], Tensor]


def lean_experts_forward(
    module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """The outputs of each token's experts, summed by the weights of the router."""
    _refuse_what_is_not_computed(module)
    up = module.gate_up_proj if module.has_gate else module.up_proj
    down = module.down_proj
    if module.is_transposed:
        up = up.transpose(1, 2)
        down = down.transpose(1, 2)
    x = hidden_states
    device = hidden_states.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        x = x.to(torch.get_autocast_dtype(device))
    pairs = sort_pairs(top_k_index, module.num_experts)
    gate = module._apply_gate if module.has_gate else module.act_fn
    run = lean_experts if torch.compiler.is_compiling() else LeanExperts.apply
    output: Tensor = run(x, top_k_weights, up.to(x.dtype), down.to(x.dtype), pairs, gate)
    return output.to(hidden_states.dtype)


def _refuse_what_is_not_computed(module: Any) -> None:
    """ValueError for parameters without a gradient here, and for random numbers drawn twice."""
    inside = list(module.act_fn.modules()) if isinstance(module.act_fn, nn.Module) else []
    hindrances = {
        "biases": module.has_bias,
        "a norm of the outputs": module.has_post_expert_norm,
        "an activation with parameters": any(list(part.parameters()) for part in inside),
        "dropout": module.training and any(getattr(part, "p", 0) for part in inside),
    }
    for what, is_there in hindrances.items():
        if is_there:
            kind = type(module).__name__
            raise ValueError(f'experts_implementation="{NAME}" does not compute {what} ({kind})')


def lean_experts(
    x_TD: Tensor, weights_TK: Tensor, up_EGD: Tensor, down_EDF: Tensor, pairs: Pairs, gate: Gate
) -> Tensor:
    """The sum of each token's experts, (T, D)."""
    gate_up_PG = grouped_linear(pairs.permute(x_TD), up_EGD, pairs)
    return _sum_experts(gate_up_PG, weights_TK, down_EDF, pairs, gate)


def _sum_experts(
    gate_up_PG: Tensor, weights_TK: Tensor, down_EDF: Tensor, pairs: Pairs, gate: Gate
) -> Tensor:
    """The outputs of pairs, summed for each token by the weights of the router."""
    out_TKD = pairs.unpermute(grouped_linear(gate(gate_up_PG), down_EDF, pairs))
    return (out_TKD * weights_TK[..., None]).sum(1)


class LeanExperts(torch.autograd.Function):
    """`lean_experts`, which keeps its arguments and the product with gate and up."""

    @staticmethod
    def forward(
        ctx: Any,
        x_TD: Tensor,
        weights_TK: Tensor,
        up_EGD: Tensor,
        down_EDF: Tensor,
        pairs: Pairs,
        gate: Gate,
    ) -> Tensor:
        gate_up_PG = grouped_linear(pairs.permute(x_TD), up_EGD, pairs)
        places = (pairs.expert_P, pairs.order_P, pairs.ends_E)
        ctx.save_for_backward(x_TD, weights_TK, up_EGD, down_EDF, gate_up_PG, *places)
        ctx.k = pairs.k
        ctx.gate = gate
        return _sum_experts(gate_up_PG, weights_TK, down_EDF, pairs, gate)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor | None, ...]:
        x_TD, weights_TK, up_EGD, down_EDF, gate_up_PG, *places = ctx.saved_tensors
        expert_P, order_P, ends_E = places
        pairs = Pairs(expert_P, order_P, ends_E, ctx.k)
        with torch.enable_grad():
            gate_up_PG = gate_up_PG.detach().requires_grad_()
            weights_P = weights_TK.detach().reshape(-1)[order_P]
            weights_P.requires_grad_()
            # Weighted before the product with `down_proj`: its gradients are those that are wanted.
            inner_PF = ctx.gate(gate_up_PG) * weights_P[:, None]
            inner_PF = inner_PF.to(gate_up_PG.dtype)
        # The router's weights, and with them the gradient, may be in float32.
        grad_TD = grad_TD.to(down_EDF.dtype)
        grad_PD = pairs.permute(grad_TD)
        grad_PF = grouped_gemm(grad_PD, down_EDF, ends_E)
        grad_PG, grad_weights_P = torch.autograd.grad(inner_PF, (gate_up_PG, weights_P), grad_PF)
        grad_x = pairs.unpermute(grouped_gemm(grad_PG, up_EGD, ends_E))
        grad_x = grad_x.sum(1)
        grad_weights = pairs.unpermute(grad_weights_P[:, None]).squeeze(-1)
        grad_up = None
        grad_down = None
        if ctx.needs_input_grad[2]:
            grad_up = grouped_outer(grad_PG, pairs.permute(x_TD), up_EGD, ends_E)
        if ctx.needs_input_grad[3]:
            grad_down = grouped_outer(grad_PD, inner_PF.detach(), down_EDF, ends_E)
        return grad_x, grad_weights, grad_up, grad_down, None, None


ALL_EXPERTS_FUNCTIONS.register(NAME, lean_experts_forward)
