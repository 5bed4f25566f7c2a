"""What this machine is and what it can do: names, versions, and one matrix product measured."""

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
from patchgen.bench.clock import timed
from patchgen.bench.spread import quartiles

# Dense bfloat16 with accumulation in float32, FLOP/s, by what the vendor's datasheet says; the first name that the
# device's contains counts.
DATASHEET = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200 NVL": 835e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
}
SIZE = 8192  # of the product: long enough to be bound by arithmetic alone
PACKAGES = ("torch", "transformers", "liger-kernel", "flash-attn", "bitsandbytes", "triton")


def versions() -> dict[str, str]:
    """Of what decides about times; "" where it is not installed."""
    found = {"patchgen": patchgen.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    found["torch"] = torch.__version__  # with how it was built
    return found


def has_gpu() -> bool:
    """Whether torch finds a CUDA device."""
    return bool(torch.cuda.is_available())


def device_name(device: str) -> str:
    """Of the GPU; "cpu" without one."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


def datasheet(name: str) -> float | None:
    """FLOP/s in bfloat16 of a device of that name; None where it is not known."""
    return next((peak for known, peak in DATASHEET.items() if known in name), None)


def machine(device: str) -> dict[str, Any]:
    """What a first look at a machine asks for; a GPU's product takes a second or two."""
    told: dict[str, Any] = {
        "device": device_name(device),
        "grouped_mm": hasattr(F, "grouped_mm"),
        "linear_cross_entropy": hasattr(F, "linear_cross_entropy"),
        "fused_rms_norm": hasattr(torch.ops.aten, "_fused_rms_norm"),
        "activate_flash_attention_impl": hasattr(torch.nn.attention, "activate_flash_attention_impl"),
        "varlen_attn": _varlen(),
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        told |= {
            "capability": list(torch.cuda.get_device_capability(device)),
            "memory": properties.total_memory,
            "processors": properties.multi_processor_count,
            "CUDA": torch.version.cuda,
            "cuDNN": torch.backends.cudnn.version(),
            "product": product(device),
            "datasheet": datasheet(told["device"]),
        }
    return told


def product(device: str, size: int = SIZE, times: int = 20) -> float:
    """FLOP/s of a product of two random square matrices in bfloat16: the median of so many."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    return 2 * size**3 / quartiles(timed(lambda: a @ b, times, device)).median


def _varlen() -> str:
    """The signature of torch's attention over texts of different lengths, which changes between releases."""
    if importlib.util.find_spec("torch.nn.attention.varlen") is None:
        return ""
    from torch.nn.attention.varlen import varlen_attn

    return str(inspect.signature(varlen_attn))
