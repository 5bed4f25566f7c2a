"""Attention that a model writes out by hand, or leaves to torch's own attention function."""

import torch
from torch import nn

from patchgen.parts.sdpa.call import sdpa, seen_before
from patchgen.parts.sdpa.terms import sum_of_terms


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    *biases: torch.Tensor | float | None,
    causal: bool = False,
    scaling: float | torch.Tensor = 1.0,
    dropout: float = 0.0,
    heads: int = 1,
) -> torch.Tensor:
    """softmax(query @ key^T * scaling + mask + biases) @ value by one call of SDPA.

    The axes are those of the matrix products: (B, H, L, D), or (B * H, L, D) with `heads` being H.
    Mask and biases are what such scores can be added to, each float (added) or bool (True is seen)
    or None; a number is the same for every key, which softmax does not see.  In a `causal`
    attention each of several queries sees the keys up to its own where there is no mask.
    """
    shape = (*value.shape[:-2], query.shape[-2], value.shape[-1])
    if isinstance(scaling, torch.Tensor):
        query, scaling = query * scaling, 1.0
    terms = [term for term in (mask, *biases) if isinstance(term, torch.Tensor)]
    if query.dim() == 3:
        terms = [
            t.unflatten(0, (-1, heads)) if t.dim() == 3 and t.shape[0] == len(query) else t
            for t in terms
        ]
        states = (query, key, value)
        query, key, value = (
            one.unflatten(0, (-1, heads)) if one.dim() == 3 else one for one in states
        )
    elif query.dim() > 4 and not terms:
        query, key, value = (one.flatten(0, -4) for one in (query, key, value))
    if query.dim() != 4:
        shape = tuple(query.shape)
        raise ValueError(f"with a mask, queries need the axes (B, H, L, D), not the shape {shape}")
    if mask is None and causal and terms and query.shape[2] > 1:
        terms.append(seen_before(query, key))
    output = sdpa(
        query,
        key.to(query.dtype),
        value.to(query.dtype),
        sum_of_terms(terms, query, key),
        causal=causal and mask is None and not terms,
        scaling=scaling,
        dropout=dropout,
    )
    return output.to(value.dtype).reshape(shape)


def projected_attention(
    query_LBE: torch.Tensor,
    key_SBE: torch.Tensor,
    value_SBE: torch.Tensor,
    size: int,
    heads: int,
    in_proj_weight: torch.Tensor,
    in_proj_bias: torch.Tensor,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    add_zero_attn: bool,
    dropout: float,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    training: bool = True,
    key_padding_mask: torch.Tensor | None = None,
    *,
    attn_mask: torch.Tensor | None,
    use_separate_proj_weight: bool,
    q_proj_weight: torch.Tensor,
    k_proj_weight: torch.Tensor,
    v_proj_weight: torch.Tensor,
    weights: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What `multi_head_attention_forward` of torch gives: the states (L, B, E), and the weights.

    The weights are None unless they are wanted.  Of its arguments, `attn_mask` is float
    (B * H, L, S) and added, `key_padding_mask` (B, S) is True where hidden; the projections are
    separate, and no keys are made up.
    """
    states = (query_LBE, key_SBE, value_SBE)
    made_up = (bias_k, bias_v, add_zero_attn)
    makes_keys_up = bias_k is not None or bias_v is not None or add_zero_attn
    if weights or makes_keys_up or not use_separate_proj_weight:
        # SDPA gives no weights; the other two no model of transformers asks for.
        joined = (in_proj_weight, in_proj_bias)
        ending = (dropout, out_weight, out_bias, training, key_padding_mask)
        return nn.functional.multi_head_attention_forward(
            *(*states, size, heads, *joined, *made_up, *ending),
            need_weights=True,
            attn_mask=attn_mask,
            use_separate_proj_weight=use_separate_proj_weight,
            q_proj_weight=q_proj_weight,
            k_proj_weight=k_proj_weight,
            v_proj_weight=v_proj_weight,
        )
    projections = (q_proj_weight, k_proj_weight, v_proj_weight)
    query, key, value = project_heads(states, projections, in_proj_bias, heads)
    terms = [] if attn_mask is None else [attn_mask.unflatten(0, (-1, heads))]
    if key_padding_mask is not None:
        terms.append(~key_padding_mask[:, None, None])
    mask = sum_of_terms(terms, query, key)
    rate = dropout if training else 0.0
    output = sdpa(query, key, value, mask, causal=False, scaling=None, dropout=rate)
    return nn.functional.linear(output.permute(2, 0, 1, 3).flatten(2), out_weight, out_bias), None


def project_heads(
    states: tuple[torch.Tensor, ...],
    weights: tuple[torch.Tensor, ...],
    bias: torch.Tensor,
    heads: int,
) -> tuple[torch.Tensor, ...]:
    """Query, key and value (B, H, L, D) of states (L, B, E); `bias` holds those of all three."""
    projected = []
    for state, weight, own_bias in zip(states, weights, bias.chunk(len(weights)), strict=True):
        state = nn.functional.linear(state, weight, own_bias)
        projected.append(state.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3))
    return tuple(projected)
