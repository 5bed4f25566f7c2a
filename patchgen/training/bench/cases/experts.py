"""M1 and M2: mixtures of experts."""

from __future__ import annotations

from dataclasses import replace

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import (
    CHECKPOINTED,
    FIVE_LINES,
    LAYERS,
    LIGER,
    SDPA,
    Entry,
    variant,
)

LEAN = Entry("lean experts", "variant", experts="lean", saves=0.9)

# A small vocabulary: this case is about the layers of a mixture.
_QWEN3_MOE_BLOCKS = (
    ("vocab_size", 1024),
    ("hidden_size", 2048),
    ("moe_intermediate_size", 768),
    ("num_local_experts", 64),
    ("num_experts_per_tok", 8),
    ("num_hidden_layers", 4),
)
_LLAMA4_BLOCKS = (
    ("vocab_size", 1024),
    ("hidden_size", 1024),
    ("intermediate_size", 2048),
    ("num_local_experts", 16),
    ("num_experts_per_tok", 1),
    ("num_hidden_layers", 2),
    ("num_attention_heads", 16),
    ("num_key_value_heads", 4),
    ("head_dim", 64),
)

M1 = Case(
    id="M1",
    group="experts",
    about="Qwen3-MoE, 4 layers of width 2048 with 64 experts of 768, 8 of them chosen; 4 rows of "
    "4096",
    model="qwen3_moe",
    head="Qwen3MoeForCausalLM",
    config=_QWEN3_MOE_BLOCKS,
    shape=Shape(4, 4096),
    task="causal",
    entries=(
        SDPA,
        LIGER,
        LEAN,
        replace(LEAN, name="lean experts + compiled layers", compiled="layers", saves=None),
        variant("qwen3_moe_checkpoint_loss"),
        variant(
            "qwen3_moe_checkpoint_loss", suffix=", selective", checkpoint="selective", saves=0.9
        ),
        CHECKPOINTED,
        LAYERS,
        FIVE_LINES,
        Entry("sdpa, experts in a loop", experts="eager"),
    ),
    targets=(
        Target(("lean experts", "qwen3_moe_checkpoint_loss"), ("sdpa",), "speed", 1.25),
        Target(("lean experts", "qwen3_moe_checkpoint_loss"), ("sdpa",), "memory", 0.7),
        Target(("lean experts", "qwen3_moe_checkpoint_loss"), ("Liger",), "speed", 1.0),
    ),
    seconds=18,
)
M2 = Case(
    id="M2",
    group="experts",
    about="Llama 4, 2 layers of width 1024 with 16 experts of 2048, one of them chosen; 4 rows of "
    "2048",
    model="llama4_text",
    head="Llama4ForCausalLM",
    config=_LLAMA4_BLOCKS,
    shape=Shape(4, 2048),
    task="causal",
    entries=(
        SDPA,
        variant("llama4_grouped", saves=0.9),
        LAYERS,
        variant("llama4_grouped", "layers"),
        FIVE_LINES,
        LIGER,
    ),
    targets=(Target(("llama4_grouped",), ("sdpa",), "block", 5.0),),
    block="model.layers.0.feed_forward",
    seconds=12,
)
