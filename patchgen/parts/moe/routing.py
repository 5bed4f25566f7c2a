"""Which experts a token goes to, and with what weight.

Axes: T tokens, E experts, K experts of one token.
"""

import math

import torch
from torch import Tensor


def choose_experts(logits_TE: Tensor, k: int, normalised: bool) -> tuple[Tensor, Tensor]:
    """Gates and experts of each token, both (T, K), the likeliest first.

    `normalised` gates sum to one; others are probabilities over all experts.
    """
    chosen_TK, choice_TK = logits_TE.topk(k, dim=-1)
    among = chosen_TK if normalised else logits_TE
    return (chosen_TK - among.logsumexp(-1, keepdim=True)).exp(), choice_TK


def within_capacity(choice_TK: Tensor, experts: int, capacity_factor: float) -> Tensor:
    """Bool, (T, K): whether the expert has room for the token.

    An expert takes `capacity_factor` times its even share of the pairs of a token and an expert, rounded up; first
    choices come before second ones, earlier tokens before later ones (GShard; Lepikhin et al. 2020, arXiv:2006.16668).
    """
    tokens, k = choice_TK.shape
    capacity = math.ceil(capacity_factor * tokens * k / experts)
    expert_P = choice_TK.t().reshape(-1)
    sorted_P, order_P = expert_P.sort(stable=True)
    first_E = torch.searchsorted(sorted_P, torch.arange(experts, device=expert_P.device))
    place_P = torch.empty_like(order_P)
    place_P[order_P] = torch.arange(len(order_P), device=order_P.device) - first_E[sorted_P]
    return (place_P < capacity).view(k, tokens).t()
