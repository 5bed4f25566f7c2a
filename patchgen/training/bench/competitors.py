"""What people use instead of a variant: five lines of code, a forced backend, Liger-Kernel,
flash-attn.

Few machines have flash-attn, but torch has its kernels.  "unpadding" is transformers' own code for
flash-attn, which removes and restores padding in every layer, with torch's kernels.
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
    """This machine does not support the entry."""


def mask_free(
    module: Any, query: Any, key: Any, value: Any, _mask: Any, scaling: Any = None, **_: Any
) -> Any:
    """Attend without a mask: the five lines.

    transformers makes no mask for an unknown name.  That is wrong for padding that is not on the
    right.
    """
    grouped = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(
        query, key, value, is_causal=module.is_causal, scale=scaling, enable_gqa=grouped
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("mask_free", mask_free)


def force_backend(backend: str) -> AbstractContextManager[Any]:
    """Use this backend of SDPA only; for "" let torch choose."""
    return sdpa_kernel(BACKENDS[backend]) if backend else nullcontext()


# For a name with "flash" in it, transformers would look for a package, or on the Hub.
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
    """Return what flash-attn's function returns, for tensors (rows, tokens, heads, size)."""
    query, key, value = (each.transpose(1, 2) for each in (q, k, v))
    grouped = q.shape[2] != k.shape[2]
    with force_backend("flash" if q.is_cuda else ""):
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
    """Return what flash-attn's function returns, for tensors (tokens, heads, size).

    Queries and keys have the same lengths.
    """
    return attend(
        q, k, v, Texts(cu_seqlens_q, int(max_seqlen_q)), Form(causal, softmax_scale, dropout_p)
    )


def flash_of_torch() -> tuple[Patch, ...]:
    """Return patches that make transformers call these functions instead of flash-attn's."""
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
    """Put Liger-Kernel's kernels into this model, and return its patches of the model's module.

    The module itself is restored, since other models may not run with them.  The names, such as
    `apply_rotary_pos_emb`, are looked up when a model runs: apply them by `patched`.  Raises
    Unavailable where Liger-Kernel is not installed, or does not support the model or its device.
    """
    if (
        importlib.util.find_spec("liger_kernel") is None
        or importlib.util.find_spec("triton") is None
    ):
        raise Unavailable("liger-kernel is not installed")
    if model.device.type == "cpu":
        raise Unavailable("Triton's kernels do not run on a CPU")
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
    """Raise Unavailable where the device does not support this attention or backend."""
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
