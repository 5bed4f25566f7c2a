"""Experts that keep their input and one product for the backward pass, and make the rest again there.

    class Qwen3MoeExperts(LeanExperts, qwen3_moe.Qwen3MoeExperts): ...

For experts of stacked weights `gate_up_proj` (E, 2F, D) and `down_proj` (E, D, F), without biases, that compute
`down(act(gate) * up)` and are summed by the weights of the router.

Of a pair of a token and an expert, transformers' grouped implementation keeps the token's copy, the product of gate
and up, the activation, what it becomes times up, and what comes down: 2D + 4F.  Here it is the product alone, 2F; the
copy is gathered again and the activation computed again, which are no matrix products.  The product down is linear, so
that its result need not be kept for the gradient of the router's weights.  A pair's gradient is its token's: the
backward pass gathers where transformers' scatters, and depends on no order of additions.

**Rounding.**  The forward pass rounds where transformers' does, so that the routers of later layers see the same and
choose the same; the backward pass rounds elsewhere.

Under `torch.compile` the same formula is left to the compiler, which decides itself what is worth keeping.  Second
derivatives are refused by torch.  Axes: as in `patchgen.parts.grouped`; G gate and up, 2F, P pairs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from patchgen.parts.grouped import (
    GROUPED_PRODUCT,
    Pairs,
    can_group,
    grouped_linear,
    grouped_product,
    pairs_of,
)


class LeanExperts:
    def forward(
        self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
    ) -> Tensor:
        pairs = pairs_of(top_k_index, self.num_experts)
        x, kind = hidden_states, hidden_states.device.type
        if torch.is_autocast_enabled(kind) and x.dtype != torch.float64:
            x = x.to(torch.get_autocast_dtype(kind))
        up, down = self.gate_up_proj.to(x.dtype), self.down_proj.to(x.dtype)
        run = lean_experts if torch.compiler.is_compiling() else Lean.apply
        return run(x, top_k_weights, up, down, pairs, self.act_fn).to(hidden_states.dtype)


def lean_experts(
    x_TD: Tensor, gates_TK: Tensor, up_EGD: Tensor, down_EDF: Tensor, pairs: Pairs, act: Any
) -> Tensor:
    """The sum of each token's experts, (T, D)."""
    return summed(
        grouped_linear(pairs.take(x_TD), up_EGD, None, pairs), gates_TK, down_EDF, pairs, act
    )


def summed(
    gate_up_PG: Tensor, gates_TK: Tensor, down_EDF: Tensor, pairs: Pairs, act: Any
) -> Tensor:
    """What comes down of each pair, summed for its token by the router's weights."""
    out_TKD = pairs.back(grouped_linear(activated(gate_up_PG, act), down_EDF, None, pairs))
    return (out_TKD * gates_TK[..., None]).sum(1)


def activated(gate_up_PG: Tensor, act: Any) -> Tensor:
    """What goes into the product down."""
    gate_PF, up_PF = gate_up_PG.chunk(2, dim=-1)
    return act(gate_PF) * up_PF


def weighted(gate_up_PG: Tensor, gates_P: Tensor, act: Any) -> Tensor:
    """The same, times the router's weight of each pair: whose product down has the gradients that are wanted."""
    return (activated(gate_up_PG, act) * gates_P[:, None]).to(gate_up_PG.dtype)


def grouped_outer(out_PF: Tensor, x_PD: Tensor, weight_EFD: Tensor, ends_E: Tensor) -> Tensor:
    """The gradient of `weight_EFD`: for each expert, the sum over its rows of their outer products."""
    if GROUPED_PRODUCT is not None and can_group(x_PD, weight_EFD):
        return GROUPED_PRODUCT(out_PF.t(), x_PD, offs=ends_E)
    starts = [0, *ends_E.tolist()]
    return torch.stack(
        [
            out_PF[first:last].t() @ x_PD[first:last]
            for first, last in zip(starts, starts[1:], strict=False)
        ]
    )


class Lean(torch.autograd.Function):
    """`lean_experts`, keeping its arguments and the product up."""

    @staticmethod
    def forward(
        ctx: Any,
        x_TD: Tensor,
        gates_TK: Tensor,
        up_EGD: Tensor,
        down_EDF: Tensor,
        pairs: Pairs,
        act: Any,
    ) -> Tensor:
        gate_up_PG = grouped_linear(pairs.take(x_TD), up_EGD, None, pairs)
        ctx.save_for_backward(
            x_TD,
            gates_TK,
            up_EGD,
            down_EDF,
            gate_up_PG,
            pairs.expert_P,
            pairs.order_P,
            pairs.ends_E,
        )
        ctx.k, ctx.act = pairs.k, act
        return summed(gate_up_PG, gates_TK, down_EDF, pairs, act)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor | None, ...]:
        x_TD, gates_TK, up_EGD, down_EDF, gate_up_PG, *kept = ctx.saved_tensors
        pairs = Pairs(*kept, k=ctx.k)
        with torch.enable_grad():
            gate_up_PG = gate_up_PG.detach().requires_grad_()
            gates_P = gates_TK.detach().reshape(-1)[pairs.order_P].requires_grad_()
            inner_PF = weighted(gate_up_PG, gates_P, ctx.act)
        grad_PD = pairs.take(grad_TD.to(down_EDF.dtype))  # weights of the router may be in float32
        grad_down = (
            grouped_outer(grad_PD, inner_PF.detach(), down_EDF, pairs.ends_E)
            if ctx.needs_input_grad[3]
            else None
        )
        grad_PF = grouped_product(grad_PD, down_EDF, pairs.ends_E)
        grad_PG, grad_gates_P = torch.autograd.grad(inner_PF, (gate_up_PG, gates_P), grad_PF)
        grad_up = (
            grouped_outer(grad_PG, pairs.take(x_TD), up_EGD, pairs.ends_E)
            if ctx.needs_input_grad[2]
            else None
        )
        grad_x = pairs.back(grouped_product(grad_PG, up_EGD, pairs.ends_E)).sum(1)
        return grad_x, pairs.back(grad_gates_P[:, None]).squeeze(-1), grad_up, grad_down, None, None
