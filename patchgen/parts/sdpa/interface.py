"""What takes the place of transformers' attention interface, with sinks as one key more."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from patchgen.parts.sdpa.asked import wants_weights
from patchgen.parts.sdpa.call import sdpa, seen_before
from patchgen.parts.sdpa.masks import additive_mask
from patchgen.parts.sdpa.terms import sum_of_terms

# What other attention functions take and one call of SDPA does not compute.
NOT_IN_SDPA = ("block_indices", "cache", "indices", "s_aux", "sinks", "softcap")


def sdpa_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    eager: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    whole_mask: bool = False,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The attention output (batch, queries, heads, size), and the weights where they are asked for.

    A mask has four dimensions (batch, one or heads, queries, keys).  By `attn_implementation`:

        sdpa   None: all keys; if causal, each of several queries sees the keys up to its own
               bool: True is seen; float: added to the scores
        eager  None: all keys; bool and float as above

    With `whole_mask`, the mask comes `for_eager`: None is all keys under "sdpa" too.
    A sliding window is in the mask: transformers makes none only where the window holds every key.
    A `position_bias` (one or batch, heads, queries, keys) is added to the scores that are seen.

    `module` has `is_causal` and `config`.  `eager` is the parent's attention function, which
    computes what has weights to return: everything under "eager", and what is asked for with
    `output_attentions` under "sdpa".
    """
    returns_weights = wants_weights(module, kwargs.get("output_attentions"))
    owner = type(module).__name__
    if attention_mask is not None and attention_mask.dim() != 4:
        shape = tuple(attention_mask.shape)
        raise ValueError(f"{owner} takes a mask of four dimensions, not one of shape {shape}")
    causal = kwargs.get("is_causal")
    causal = not whole_mask and (module.is_causal if causal is None else causal)

    if returns_weights:
        # Under "eager", transformers makes a causal mask; under "sdpa" it may leave that to SDPA.
        hides_later = causal and module.config._attn_implementation != "eager"
        mask = additive_mask(attention_mask, query, key, causal=hides_later)
        return eager(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)

    for name in NOT_IN_SDPA:
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"{owner} was given `{name}`, which SDPA does not compute")
    bias = kwargs.get("position_bias")
    if bias is not None:
        states = (query, key, value, attention_mask)
        key, value, attention_mask = with_bias(*states, bias, causal=causal)
    output = sdpa(
        query, key, value, attention_mask, causal=causal, scaling=scaling, dropout=dropout
    )
    return output.transpose(1, 2), None


def with_bias(
    query_BHLD: torch.Tensor,
    key_BGSD: torch.Tensor,
    value_BGSD: torch.Tensor,
    mask: torch.Tensor | None,
    bias: torch.Tensor,
    *,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Key, value and mask, with `bias` (one or B, H, L, S) added to the scores that are seen."""
    queries = query_BHLD.shape[2]
    if mask is None and causal and queries > 1:
        # A static cache being filled from empty has more keys than queries.
        key_BGSD, value_BGSD = key_BGSD[:, :, :queries], value_BGSD[:, :, :queries]
        bias = bias[..., :queries]
        mask = seen_before(query_BHLD, key_BGSD)
    terms = [bias] if mask is None else [mask, bias]
    return key_BGSD, value_BGSD, sum_of_terms(terms, query_BHLD, key_BGSD)


def sink_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    eager: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    *,
    s_aux: torch.Tensor | None = None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`sdpa_attention` with one key more: its score is `s_aux` (heads), its value is zero."""
    if s_aux is None or wants_weights(module, kwargs.get("output_attentions")):
        kwargs |= {"scaling": scaling, "s_aux": s_aux}
        return sdpa_attention(module, query, key, value, attention_mask, eager, **kwargs)
    causal = kwargs.get("is_causal")
    causal = not kwargs.get("whole_mask") and (module.is_causal if causal is None else causal)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    states = with_sinks(query, key, value, attention_mask, s_aux / scaling, causal=causal)
    return sdpa_attention(
        module, *states, eager, **kwargs | {"scaling": scaling, "is_causal": False}
    )


def with_sinks(
    query_BHLD: torch.Tensor,
    key_BGSD: torch.Tensor,
    value_BGSD: torch.Tensor,
    mask: torch.Tensor | None,
    sinks_H: torch.Tensor,
    *,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Query, key, value and mask with one key before the others, which all queries see.

    Its score is `sinks`, its value zero.  The score is a feature more of each query, which that key
    alone has: heads go on sharing keys, and the mask has no gradient.  The mask says what order
    says.
    """
    queries = query_BHLD.shape[2]
    if mask is None and causal and queries > 1:
        # A static cache being filled from empty has more keys than queries.
        key_BGSD, value_BGSD = key_BGSD[:, :, :queries], value_BGSD[:, :, :queries]
        mask = seen_before(query_BHLD, key_BGSD)[None, None]
    scores = sinks_H.to(query_BHLD.dtype)[None, :, None, None].expand(*query_BHLD.shape[:-1], 1)
    feature = nn.functional.pad(torch.zeros_like(key_BGSD[..., :1]), (0, 0, 1, 0), value=1.0)
    key_BGSD = torch.cat([nn.functional.pad(key_BGSD, (0, 0, 1, 0)), feature], dim=-1)
    value_BGSD = nn.functional.pad(value_BGSD, (0, 0, 1, 0))
    mask = (
        mask
        if mask is None
        else nn.functional.pad(mask, (1, 0), value=float(mask.dtype == torch.bool))
    )
    return torch.cat([query_BHLD, scores], dim=-1), key_BGSD, value_BGSD, mask
