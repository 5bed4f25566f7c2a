"""What people would use instead of a variant: five lines of their own, a forced backend, Liger-Kernel, flash-attn.

flash-attn is a package that few machines have, and torch has its kernels.  "unpadding" is transformers' own code for
it, padding taken out and put back in every layer, with torch's kernels in the place of the package's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers import modeling_flash_attention_utils as flash_utils
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import flash_attention_mask

from patchgen.runtime.varlen import Form, Texts, attend
from patchgen.training.patching import Patch

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Unavailable(Exception):
    """This machine has not what it takes."""


def mask_free(
    module: Any, query: Any, key: Any, value: Any, _mask: Any, scaling: Any = None, **_: Any
) -> Any:
    """The five lines.  A name without a function for masks gets none: wrong for padding that is not on the right."""
    grouped = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(
        query, key, value, is_causal=module.is_causal, scale=scaling, enable_gqa=grouped
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("mask_free", mask_free)


def forced(backend: str) -> AbstractContextManager[Any]:
    """SDPA by this backend alone; by torch's choice for ""."""
    return sdpa_kernel(BACKENDS[backend]) if backend else nullcontext()


# A name without "flash" in it: transformers would look for a package, or on the Hub.
AttentionInterface.register("unpadding", flash_attention_forward)
AttentionMaskInterface.register("unpadding", flash_attention_mask)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """As flash-attn's function of this name: (rows, tokens, heads, size)."""
    query, key, value = (each.transpose(1, 2) for each in (q, k, v))
    grouped = q.shape[2] != k.shape[2]
    with forced("flash" if q.is_cuda else ""):
        out = F.scaled_dot_product_attention(
            query,
            key,
            value,
            dropout_p=dropout_p,
            is_causal=causal,
            scale=softmax_scale,
            enable_gqa=grouped,
        )
    return out.transpose(1, 2)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """As flash-attn's function of this name, for queries that are as many as keys: (tokens, heads, size)."""
    return attend(
        q, k, v, Texts(cu_seqlens_q, int(max_seqlen_q)), Form(causal, softmax_scale, dropout_p)
    )


def flash_of_torch() -> tuple[Patch, ...]:
    """What has transformers call these functions where it looks for those of flash-attn."""
    return (
        (flash_utils, "_loaded_implementation", "unpadding"),
        (flash_utils, "_flash_fn", flash_attn_func),
        (flash_utils, "_flash_varlen_fn", flash_attn_varlen_func),
        (flash_utils, "_flash_with_kvcache_fn", None),
        (flash_utils, "_pad_fn", flash_utils._pad_input),
        (flash_utils, "_unpad_fn", flash_utils._unpad_input),
        (
            flash_utils,
            "_process_flash_kwargs_fn",
            flash_utils._lazy_define_process_function(flash_attn_varlen_func),
        ),
        (flash_utils, "_process_with_kvcache_kwargs_fn", None),
    )


def apply_liger(model: PreTrainedModel) -> tuple[Patch, ...]:
    """Liger-Kernel's kernels in this model; what it changed in the model's modules beside, which is undone here.

    Such names (`apply_rotary_pos_emb`) are looked up when a model runs: hold them by `patched`, for no other model may
    run with them.  Raises Unavailable where Liger-Kernel is not installed, or does not know the model.
    """
    if (
        importlib.util.find_spec("liger_kernel") is None
        or importlib.util.find_spec("triton") is None
    ):
        raise Unavailable("liger-kernel is not installed")
    liger = importlib.import_module("liger_kernel.transformers.monkey_patch")
    if model.config.model_type not in liger.MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise Unavailable(f"Liger-Kernel does not know {model.config.model_type}")
    home = sys.modules[type(model).__module__]
    before = dict(vars(home))
    liger._apply_liger_kernel_to_instance(model)
    changed = [
        (home, name, value) for name, value in vars(home).items() if before.get(name) is not value
    ]
    for name in [name for _, name, _ in changed]:
        setattr(home, name, before[name])
    return tuple(changed)


def check_available(attention: str, backend: str, device: str, dtype: torch.dtype) -> None:
    """Raises Unavailable where this attention or this backend of SDPA cannot be had on the device for the dtype."""
    if (
        device.startswith("cuda")
        and dtype == torch.float32
        and (backend or attention.startswith("flash_attention"))
    ):
        raise Unavailable(
            f"{backend or attention} takes half precision, and this model is in float32"
        )
    if backend and not device.startswith("cuda"):
        raise Unavailable(f"the {backend} backend needs a CUDA device")
    if attention.startswith("flash_attention"):
        if not device.startswith("cuda"):
            raise Unavailable(f"{attention} needs a CUDA device")
        if importlib.util.find_spec("flash_attn") is None:
            raise Unavailable("flash-attn is not installed")
    if backend == "cudnn" and not torch.backends.cudnn.is_available():
        raise Unavailable("torch has no cuDNN here")
