"""Describes this machine: names, versions, and one measured matrix product."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import platform
from typing import Any

import torch
import torch.nn.attention
from torch.nn import functional as F

import patchgen
from patchgen.training.rate.peak import datasheet_flops, measure_product

PACKAGES = ("torch", "transformers", "liger-kernel", "flash-attn", "bitsandbytes", "triton")


def versions() -> dict[str, str]:
    """Return the versions of what determines times; "" for what is not installed."""
    found = {"patchgen": patchgen.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    found["torch"] = torch.__version__  # with how it was built
    return found


def has_gpu() -> bool:
    """Return whether torch finds a CUDA device."""
    return bool(torch.cuda.is_available())


def device_name(device: str) -> str:
    """Return the name of the GPU; "cpu" without one."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


def machine(device: str) -> dict[str, Any]:
    """Return the description of the machine; measuring a GPU's product takes a second or two."""
    description: dict[str, Any] = {
        "device": device_name(device),
        "grouped_mm": hasattr(F, "grouped_mm"),
        "linear_cross_entropy": hasattr(F, "linear_cross_entropy"),
        "fused_rms_norm": hasattr(torch.ops.aten, "_fused_rms_norm"),
        "activate_flash_attention_impl": hasattr(
            torch.nn.attention, "activate_flash_attention_impl"
        ),
        "varlen_attn": _varlen(),
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        description |= {
            "capability": list(torch.cuda.get_device_capability(device)),
            "memory": properties.total_memory,
            "processors": properties.multi_processor_count,
            "CUDA": torch.version.cuda,
            "cuDNN": torch.backends.cudnn.version(),
            "product": measure_product(device),
            "datasheet": datasheet_flops(description["device"]),
        }
    return description


def _varlen() -> str:
    """Return the signature of torch's varlen attention, which changes between releases."""
    if importlib.util.find_spec("torch.nn.attention.varlen") is None:
        return ""
    from torch.nn.attention.varlen import varlen_attn

    return str(inspect.signature(varlen_attn))
