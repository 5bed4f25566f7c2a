"""What people would use instead of a variant: five lines of their own, a forced backend, Liger-Kernel."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, PreTrainedModel

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Unavailable(Exception):
    """This machine has not what it takes."""


def mask_free(module: Any, query: Any, key: Any, value: Any, _mask: Any, scaling: Any = None, **_: Any) -> Any:
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


Patch = tuple[tuple[Any, str, Any], ...]


def apply_liger(model: PreTrainedModel) -> Patch:
    """Liger-Kernel's kernels in this model; what it changed in the model's modules beside, which is undone here.

    Such names (`apply_rotary_pos_emb`) are looked up when a model runs: hold them by `patched`, for no other model may
    run with them.  Raises Unavailable where Liger-Kernel is not installed, or does not know the model.
    """
    if importlib.util.find_spec("liger_kernel") is None or importlib.util.find_spec("triton") is None:
        raise Unavailable("liger-kernel is not installed")
    liger = importlib.import_module("liger_kernel.transformers.monkey_patch")
    if model.config.model_type not in liger.MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise Unavailable(f"Liger-Kernel does not know {model.config.model_type}")
    home = sys.modules[type(model).__module__]
    before = dict(vars(home))
    liger._apply_liger_kernel_to_instance(model)
    changed = [(home, name, value) for name, value in vars(home).items() if before.get(name) is not value]
    for name in [name for _, name, _ in changed]:
        setattr(home, name, before[name])
    return tuple(changed)


@contextmanager
def patched(patch: Patch) -> Iterator[None]:
    """Names of modules set, and set back."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patch]
    for owner, name, value in patch:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def insist(attention: str, backend: str, device: str) -> None:
    """Raises Unavailable where this attention or this backend of SDPA cannot be had on the device."""
    if backend and not device.startswith("cuda"):
        raise Unavailable(f"the {backend} backend needs a CUDA device")
    if attention.startswith("flash_attention"):
        if not device.startswith("cuda"):
            raise Unavailable(f"{attention} needs a CUDA device")
        if importlib.util.find_spec("flash_attn") is None:
            raise Unavailable("flash-attn is not installed")
    if backend == "cudnn" and not torch.backends.cudnn.is_available():
        raise Unavailable("torch has no cuDNN here")
