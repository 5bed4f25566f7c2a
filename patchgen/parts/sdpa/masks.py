"""Masks as transformers makes them for "eager", where a model reads them itself."""

from collections.abc import Callable
from typing import Any

import torch
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import (
    create_bidirectional_mask,
    create_bidirectional_sliding_window_mask,
)

from patchgen.parts.sdpa.call import seen_before


def additive_mask(
    mask: torch.Tensor | None, query_BHLD: torch.Tensor, key_BGSD: torch.Tensor, *, causal: bool
) -> torch.Tensor | None:
    """The mask that transformers makes for "eager" where it makes `mask` for "sdpa".

    It is zero where a key is seen, else the minimum of the dtype.
    """
    if mask is None and causal and query_BHLD.shape[-2] > 1:
        mask = seen_before(query_BHLD, key_BGSD)[None, None]
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=query_BHLD.dtype, device=query_BHLD.device)
    return torch.where(mask, zero, torch.finfo(query_BHLD.dtype).min)


def for_eager(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make`, a function of transformers that makes masks, giving always what it gives for "eager".

    For models that do more with a mask than hide scores, or whose attentions do not all say whether
    they are causal: a float tensor that is added, never None where it is causal.
    """

    def made(
        config: PreTrainedConfig, inputs_embeds: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        if make not in (create_bidirectional_mask, create_bidirectional_sliding_window_mask):
            kwargs["allow_is_causal_skip"] = False
        mask = make(config, inputs_embeds, *args, **kwargs)
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            return mask
        zero = torch.zeros((), dtype=inputs_embeds.dtype, device=mask.device)
        return torch.where(mask, zero, torch.finfo(inputs_embeds.dtype).min)

    return made
