"""One way to train a model: stock or a variant, with all its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

# "stock" is transformers with its options, "competitor" also with five lines of one's own code.
Role = Literal["stock", "competitor", "variant"]
Layout = Literal["padded", "packed", "flat"]
Compiled = Literal["", "whole", "layers", "graphs"]
Precision = Literal[
    "fp32", "tf32", "amp-bf16", "amp-fp16", "pure-bf16"
]  # see `patchgen.training.precision`


@dataclass(frozen=True, slots=True)
class Entry:
    """What differs between two rows of a table.

    variant     a variant of the gallery, by name; "" is transformers' own class
    attention   `attn_implementation`.  "varlen" is that of `patchgen.runtime`; "mask_free" is
                the five lines of `patchgen.training.bench.competitors`; "unpadding" is
                transformers' code for flash-attn, with torch's own kernels
    backend     the only SDPA backend that may run: "cudnn" or "flash"
    compiled    "whole": the model; "layers": each layer by itself; "graphs": the model, launched
                by CUDA graphs
    checkpoint  "full"; "offload": full, with the saved tensors in host memory; "selective": the
                results of matrix products and attention are saved
    experts     `experts_implementation`
    precision   the dtype of weights, and of autocast
    accumulate  backward passes in a step, each over a part of the batch
    rows        rows of the batch, where they differ from the case's
    layout      of packed texts: in rows of the case's length, or "flat": all in one row
    settings    values of the configuration
    no_mask     check: SDPA gets no mask
    saves       check: the activations saved for backward are at most this share of what the
                case's baseline saves; checked on tiny models
    """

    name: str
    role: Role = "stock"
    variant: str = ""
    attention: str = "sdpa"
    backend: str = ""
    compiled: Compiled = ""
    checkpoint: str = ""
    liger: bool = False
    experts: str = ""
    precision: Precision = "pure-bf16"
    optimizer: str = "adamw"
    accumulate: int = 1
    rows: int | None = None
    layout: Layout = "padded"
    settings: tuple[tuple[str, Any], ...] = ()
    no_mask: bool = False
    saves: float | None = None


def variant(name: str, compiled: Compiled = "", *, suffix: str = "", **more: Any) -> Entry:
    """Return the entry of a variant of the gallery, named after it, with `suffix` appended."""
    ways = {
        "whole": " + compile",
        "layers": " + compiled layers",
        "graphs": " + CUDA graphs",
        "": "",
    }
    return Entry(f"{name}{suffix}{ways[compiled]}", "variant", name, compiled=compiled, **more)


def with_autocast(*entries: Entry) -> tuple[Entry, ...]:
    """Return the same entries with float32 weights, computed in bfloat16 by autocast."""
    return tuple(replace(one, precision="amp-bf16", saves=None) for one in entries)


EAGER = Entry("eager", attention="eager")
SDPA = Entry("sdpa")
CUDNN = Entry("sdpa, cuDNN forced", backend="cudnn")
FLASH = Entry("sdpa, flash forced", backend="flash")
COMPILED = Entry("sdpa + compile", compiled="whole")
LAYERS = Entry("sdpa + compiled layers", compiled="layers")
CHECKPOINTED = Entry("sdpa + checkpointing", checkpoint="full", saves=0.7)
OFFLOADED = Entry("sdpa + checkpointing, offloaded", checkpoint="offload")
FIVE_LINES = Entry("five lines", role="competitor", attention="mask_free", no_mask=True)
FIVE_LINES_COMPILED = Entry(
    "five lines + compile", role="competitor", attention="mask_free", compiled="whole", no_mask=True
)
LIGER = Entry("Liger", liger=True)
LIGER_LAYERS = Entry("Liger + compiled layers", liger=True, compiled="layers")
FLASH2 = Entry("flash_attention_2", attention="flash_attention_2")
TORCH_FLASH = Entry("flash_attention_2, torch's kernels", attention="unpadding")
