"""Attention that a model writes out by hand."""

import torch

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
