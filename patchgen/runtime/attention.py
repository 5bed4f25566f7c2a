"""Choose the fastest attention that is installed for a model.

    attention = fastest_attention(LlamaForCausalLM, torch.bfloat16)     # "flash_attention_3"
    LlamaForCausalLM.from_pretrained(..., attn_implementation=attention)

FlashAttention also leaves out padding and keeps the texts of a row apart, in variants that have the
part `flash`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from transformers.utils import (
    is_flash_attn_2_available,
    is_flash_attn_3_available,
    is_flash_attn_4_available,
)

FASTEST = "fastest"
NARROW = (torch.float16, torch.bfloat16)
# The best first, each with the generations of cards (the major compute capability) that it is for.
KERNELS = (
    ("flash_attention_4", (10, 11)),
    ("flash_attention_3", (9,)),
    ("flash_attention_2", (8, 9, 10, 11, 12)),
)


def fastest_attention(model_class: Any, dtype: torch.dtype) -> str | None:
    """The name for `attn_implementation`, for products of `dtype`; None: what the model chooses.

    None unless the model takes FlashAttention, in 16 bits, and a package of it is installed for
    the first CUDA device.
    """
    if not torch.cuda.is_available() or dtype not in NARROW or not model_class._supports_flash_attn:
        return None
    installed = {
        "flash_attention_4": is_flash_attn_4_available(),
        "flash_attention_3": is_flash_attn_3_available(),
        "flash_attention_2": is_flash_attn_2_available(),
    }
    generation, _ = torch.cuda.get_device_capability()
    return choose_kernel(generation, [name for name, is_there in installed.items() if is_there])


def choose_kernel(generation: int, installed: Collection[str]) -> str | None:
    """The best of the installed kernels for cards of a generation."""
    for name, generations in KERNELS:
        if generation in generations and name in installed:
            return name
    return None
