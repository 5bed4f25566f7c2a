"""One call of `scaled_dot_product_attention`: heads that share keys, causal order, dropout."""

import torch
from torch import nn


def sdpa(
    query_BHLD: torch.Tensor,
    key_BGSD: torch.Tensor,
    value_BGSD: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    causal: bool,
    scaling: float | None,
    dropout: float,
) -> torch.Tensor:
    """softmax(query @ key^T * scaling, masked) @ value of shape (B, H, L, D), by one call of SDPA.

    `causal` counts where there is no mask and more than one query; the first query then sees the
    first key alone.
    """
    queries, groups = query_BHLD.shape[2], query_BHLD.shape[1] // key_BGSD.shape[1]
    # The order matters to torch.compile: a symbolic length first, or the result is no bool.
    causal = queries > 1 and mask is None and causal
    if causal and key_BGSD.shape[2] > queries:
        # A static cache being filled from empty.  Only with as many keys as queries are there fast
        # causal kernels.
        key_BGSD, value_BGSD = key_BGSD[:, :, :queries], value_BGSD[:, :, :queries]

    native = False
    if groups > 1:
        # With a mask or a large head, CUDA has native grouped heads in its slow path only.
        native = mask is None and key_BGSD.shape[-1] == value_BGSD.shape[-1] <= 256
        if not native and queries == 1:
            # The query heads that share a key head stand as so many queries of it, so no key
            # is copied.
            query_BHLD = query_BHLD.unflatten(1, (-1, groups)).squeeze(3)
            mask = (
                mask
                if mask is None or mask.shape[1] == 1
                else mask.unflatten(1, (-1, groups)).squeeze(3)
            )
        elif not native:
            key_BGSD = key_BGSD.repeat_interleave(groups, dim=1)
            value_BGSD = value_BGSD.repeat_interleave(groups, dim=1)

    output = nn.functional.scaled_dot_product_attention(
        query_BHLD,
        key_BGSD,
        value_BGSD,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=scaling,
        enable_gqa=native,
    )
    return output.reshape(output.shape[0], -1, queries, value_BGSD.shape[-1])


def seen_before(query_BHLD: torch.Tensor, key_BGSD: torch.Tensor) -> torch.Tensor:
    """(queries, keys): True where a key is not after the query."""
    shape = (query_BHLD.shape[-2], key_BGSD.shape[-2])
    return torch.ones(shape, dtype=torch.bool, device=query_BHLD.device).tril()
