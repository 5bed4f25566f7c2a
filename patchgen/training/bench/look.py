"""Describes a machine before a benchmark: which attention it runs, and where masks are made.

Nothing is compared or written.  The figures of a benchmark are read with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend

from patchgen.training.bench.case import Case
from patchgen.training.bench.cases.bert import B1
from patchgen.training.bench.cases.decoders import G1, L1
from patchgen.training.bench.compiling import Masks, allow_many_models, compile_model, record_masks
from patchgen.training.bench.entry import SDPA
from patchgen.training.bench.kernels import attention_kernels
from patchgen.training.bench.machine import machine, versions
from patchgen.training.bench.setup import CaseSetup, Scale
from patchgen.training.bench.tiny import tiny_case

HEADS, LENGTH, ROWS = 8, 1024, 2  # of the attention that runs
SIZES = (64, 128)  # of a head
MODELS = (B1, G1, L1)
BACKENDS = {int(backend): str(name) for name, backend in SDPBackend.__members__.items()}
BATCHES = ("no mask", "all ones", "padded")


def look(device: str) -> dict[str, Any]:
    """Return what to know about the machine before the first benchmark."""
    return {
        **machine(device),
        "versions": versions(),
        "attention": dict(_kernels(device)),
        "backends": dict(_chosen_backends(device)),
        "masks": {case.model: dict(_masks(case)) for case in MODELS},
    }


def _kernels(device: str) -> Iterator[tuple[str, str]]:
    """Yield the most expensive attention operation, forward and backward, by mask and head size."""
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    mask = torch.ones(ROWS, 1, LENGTH, LENGTH, dtype=torch.bool, device=device).tril()
    for size in SIZES:
        query = torch.randn(
            ROWS, HEADS, LENGTH, size, device=device, dtype=dtype, requires_grad=True
        )
        for name, how in (
            ("none", {}),
            ("causal", {"is_causal": True}),
            ("bool", {"attn_mask": mask}),
        ):
            found = attention_kernels(partial(_attend, query, how), device)
            yield f"{name}, heads of {size}", ", ".join(found[:2])


def _chosen_backends(device: str) -> Iterator[tuple[str, str]]:
    """Yield the SDPA backend that torch chooses, by mask and head size.

    It depends on the GPU and the releases of torch and cuDNN: cuDNN comes first on some, flash on
    others.
    """
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    masks = {
        kind: torch.zeros(ROWS, 1, LENGTH, LENGTH, dtype=kind, device=device)
        for kind in (torch.bool, dtype)
    }
    for size in SIZES:
        query = torch.randn(ROWS, HEADS, LENGTH, size, device=device, dtype=dtype)
        fewer = query[:, : HEADS // 2].contiguous()
        ways: tuple[tuple[str, torch.Tensor, dict[str, Any]], ...] = (
            ("none", query, {}),
            ("causal", query, {"is_causal": True}),
            ("causal, grouped", fewer, {"is_causal": True, "enable_gqa": True}),
            ("bool", query, {"attn_mask": masks[torch.bool]}),
            ("bias", query, {"attn_mask": masks[dtype]}),
            ("bias, grouped", fewer, {"attn_mask": masks[dtype], "enable_gqa": True}),
            ("dropout", query, {"dropout_p": 0.1}),
        )
        for name, key, how in ways:
            chosen = int(torch._fused_sdp_choice(query, key, key, **how))
            yield f"{name}, heads of {size}", BACKENDS.get(chosen, str(chosen))


def _attend(query: torch.Tensor, how: dict[str, Any]) -> None:
    F.scaled_dot_product_attention(query, query, query, **how).sum().backward()


def _masks(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the masks that stock SDPA gets in a tiny model, in eager mode and compiled."""
    allow_many_models()
    setup = CaseSetup(tiny_case(case), Scale("cpu", tiny=True))
    setup.reset(torch.float32)
    for batch in BATCHES:
        for compiled in (False, True):
            masks = _masks_of(setup, batch, compiled)
            yield (
                f"{batch}, {'compiled' if compiled else 'eager mode'}",
                ", ".join(sorted(set(masks))),
            )
    torch._dynamo.reset()


def _masks_of(setup: CaseSetup, batch: str, compiled: bool) -> Masks:
    prepared = setup.prepare(replace(SDPA, name=batch))
    inputs = dict(prepared.batch.inputs)
    if batch == "no mask":
        del inputs["attention_mask"]
    elif batch == "padded":
        inputs["attention_mask"] = inputs["attention_mask"].clone()
        inputs["attention_mask"][-1, inputs["attention_mask"].shape[1] // 2 :] = 0
    masks: Masks = []
    if compiled:
        compile_model(prepared.model, "whole", masks, traced_only=True)
        prepared.model(**inputs)
    else:
        with record_masks(masks):
            prepared.model(**inputs)
    return masks
