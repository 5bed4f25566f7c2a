"""The place of transformers' attention interface in a model whose tokens lie in one row, and which names it takes."""

from typing import Any

import torch
from torch import nn

from patchgen.parts.flash.kernels import Form, attend_in_sequences

# What other attention functions take and these kernels do not compute, or not in all of their releases.
NOT_IN_FLASH = ("block_indices", "cache", "indices", "position_bias", "s_aux", "sinks", "softcap")


def refuse_other_kernels(owner: str, implementation: str | None) -> None:
    """ValueError unless `implementation` is "sdpa", "eager" or None (transformers then takes "sdpa")."""
    if implementation not in ("sdpa", "eager", None):
        raise ValueError(
            f'{owner} chooses its kernels itself and takes attn_implementation="sdpa" (without padding, by '
            f'FlashAttention-2 where this machine has it) or "eager" (as transformers computes it), not '
            f'"{implementation}". Leave it out.'
        )


class FlashOrEager:
    """Takes `attn_implementation` "sdpa" and "eager".

    Every other is a ValueError when the model is built, and when `set_attn_implementation` is called.
    """

    _supports_sdpa = True
    _supports_flash_attn = False
    _supports_flex_attn = False
    _supports_attention_backend = False

    def _check_and_adjust_attn_implementation(self, attn_implementation: str | None, *args: Any, **kwargs: Any) -> str:
        refuse_other_kernels(type(self).__name__, attn_implementation)
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def get_correct_attn_implementation(self, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
        # The only check that a model inside another one gets from `set_attn_implementation`.
        refuse_other_kernels(type(self).__name__, requested_attention)
        return super().get_correct_attn_implementation(requested_attention, *args, **kwargs)


def in_autocast(states: torch.Tensor) -> torch.Tensor:
    """In the dtype of autocast, as SDPA casts them: a rotary embedding leaves queries and keys in float32.

    The kernels take half precision alone, and no cast is made for them.
    """
    device = states.device.type
    if states.dtype != torch.float32 or not torch.is_autocast_enabled(device):
        return states
    return states.to(torch.get_autocast_dtype(device))


def flash_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention output (1, tokens, heads, size) of sequences in one row, and no weights.

    query, key, value: (1, heads, tokens, size).  `cu_seq_lens_q` and `max_length_q`, as transformers names them, say
    which sequences there are; the mask is not looked at.
    """
    for name in NOT_IN_FLASH:
        if kwargs.get(name) is not None:
            raise NotImplementedError(
                f"{type(module).__name__} was given `{name}`, which these kernels do not compute"
            )
    causal = module.is_causal if is_causal is None else is_causal
    form = Form(causal=causal, scaling=scaling, dropout=dropout, window=sliding_window)
    query, key, value = (in_autocast(each).squeeze(0).transpose(0, 1) for each in (query, key, value))
    return attend_in_sequences(query, key, value, cu_seq_lens_q, max_length_q, form).unsqueeze(0), None
