"""L1 to L3 and G1: Llama-3.2-1B and GPT-2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import (
    CHECKPOINTED,
    COMPILED,
    CUDNN,
    EAGER,
    FIVE_LINES,
    FIVE_LINES_COMPILED,
    FLASH,
    LAYERS,
    LIGER,
    LIGER_LAYERS,
    OFFLOADED,
    SDPA,
    Entry,
    variant,
    with_autocast,
)

_LLAMA_1B = (
    ("vocab_size", 128256),
    ("hidden_size", 2048),
    ("intermediate_size", 8192),
    ("num_hidden_layers", 16),
    ("num_attention_heads", 32),
    ("num_key_value_heads", 8),
    ("head_dim", 64),
    ("max_position_embeddings", 131072),
    ("tie_word_embeddings", True),
)
_LIGER = (LIGER.name, LIGER_LAYERS.name)
_FIVE: dict[str, Any] = {"suffix": " + five lines", "attention": "mask_free", "no_mask": True}

L1 = Case(
    id="L1",
    group="llama",
    about="Llama-3.2-1B, 8 full rows of 4096",
    model="llama",
    head="LlamaForCausalLM",
    config=_LLAMA_1B,
    shape=Shape(8, 4096),
    task="causal",
    entries=(
        SDPA,
        COMPILED,
        FIVE_LINES_COMPILED,
        LIGER,
        LAYERS,
        variant("llama_loss", "layers"),
        LIGER_LAYERS,
        FIVE_LINES,
        variant("llama_loss", saves=0.95),
        variant("llama_loss", suffix=", selective", checkpoint="selective", saves=0.9),
        CHECKPOINTED,
        variant("llama_loss", "whole", **_FIVE),
        CUDNN,
        FLASH,
        Entry("eager, 1 row, checkpointed", attention="eager", rows=1, checkpoint="full"),
    ),
    targets=(
        Target(("llama_loss",), ("sdpa",), "speed", 1.2),
        Target(("llama_loss",), ("sdpa + compile",), "speed", 1.4),
        Target(("llama_loss",), ("sdpa",), "memory", 0.55),
        Target(("llama_loss, selective",), ("sdpa",), "speed", 0.94),
        Target(("llama_loss",), _LIGER, "speed", 1.03),
        Target(("llama_loss",), _LIGER, "memory", 1.0),
        Target(("llama_loss",), (), "rate", 495e12),
    ),
    rounds=((2, 4), (1, 3)),
    seconds=70,
)
L2 = Case(
    id="L2",
    group="llama",
    about="Llama-3.2-1B, texts of 256 to 1792 that fill 8 rows of 4096, or padded to the longest",
    model="llama",
    head="LlamaForCausalLM",
    config=_LLAMA_1B,
    shape=Shape(8, 4096, packed=(256, 1792)),
    task="causal",
    entries=(
        SDPA,
        variant("llama_packed", suffix=", packed", attention="varlen", layout="packed", saves=0.95),
        variant("llama_packed", "layers", suffix=", packed", attention="varlen", layout="packed"),
        LIGER,
        variant("llama_packed", suffix=", padded", attention="varlen", saves=0.95),
        Entry("flash_attention_2, packed, torch's kernels", attention="unpadding", layout="flat"),
        Entry("sdpa, packed", layout="packed"),
        FIVE_LINES,
        LAYERS,
        Entry("Liger, packed", liger=True, layout="packed"),
        Entry("flash_attention_2, packed", attention="flash_attention_2", layout="flat"),
    ),
    targets=(
        Target(("llama_packed",), ("sdpa",), "speed", 2.0),
        Target(("llama_packed",), ("Liger",), "speed", 1.7),
    ),
    rounds=((2, 4), (1, 3)),
    seconds=37,
)
L2_AMP = replace(
    L2,
    id="L2-amp",
    about="the texts of L2 in batches of many lengths; float32 weights under autocast",
    entries=with_autocast(
        SDPA,
        variant("llama_packed", suffix=", packed", attention="varlen", layout="packed"),
        variant("llama_packed", "layers", suffix=", packed", attention="varlen", layout="packed"),
        LIGER,
        Entry("flash_attention_2, packed, torch's kernels", attention="unpadding", layout="flat"),
        Entry("Liger, packed", liger=True, layout="packed"),
        LAYERS,
    ),
    targets=(Target(("llama_packed",), ("sdpa",), "speed", 1.8),),
    seconds=17,
    batches=4,
)
L3 = Case(
    id="L3",
    group="llama",
    about="Llama-3.2-1B, how many rows of 4096 fit into 130 GiB",
    model="llama",
    head="LlamaForCausalLM",
    config=_LLAMA_1B,
    shape=Shape(8, 4096),
    task="causal",
    entries=(
        SDPA,
        CHECKPOINTED,
        variant("llama_loss", suffix=", full", checkpoint="full"),
        variant("llama_loss", suffix=", selective", checkpoint="selective"),
        Entry("Liger + checkpointing", liger=True, checkpoint="full"),
        OFFLOADED,
    ),
    targets=(
        Target(("llama_loss",), ("sdpa",), "rows", 2.5),
        Target(("llama_loss",), ("Liger + checkpointing",), "rows", 1.2),
    ),
    seconds=37,
    fits=True,
)
G1 = Case(
    id="G1",
    group="gpt2",
    about="GPT-2 of 124M, 32 full rows of 1024",
    model="gpt2",
    head="GPT2LMHeadModel",
    config=(),
    shape=Shape(32, 1024),
    task="causal",
    entries=(
        SDPA,
        COMPILED,
        FIVE_LINES,
        FIVE_LINES_COMPILED,
        variant("gpt2_gelu_loss", "layers"),
        variant("gpt2_gelu_loss", "whole", **_FIVE),
        variant("gpt2_gelu_loss", saves=0.75),
        variant("gpt2_gelu", saves=0.85),
        variant("gpt2_loss", saves=0.9),
        variant("gpt2_loss", "layers", no_mask=True),
        EAGER,
        CUDNN,
        FLASH,
        CHECKPOINTED,
    ),
    targets=(
        Target(("gpt2_gelu_loss", "gpt2_loss", "gpt2_gelu"), ("sdpa + compile",), "speed", 1.3),
        Target(("gpt2_gelu_loss", "gpt2_loss"), ("sdpa + compile",), "memory", 0.6),
    ),
    seconds=38,
)
