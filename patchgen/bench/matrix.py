"""The matrix: what is trained by whom, and what is hoped for."""

from __future__ import annotations

from patchgen.bench.case import Case, Shape
from patchgen.bench.contestant import (
    SDPA,
    Contestant,
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
_RIGHT_PADDED = (("assume_right_padding", True),)

L1 = Case(
    id="L1",
    group="llama",
    about="Llama-3.2-1B, 8 rows of 4096",
    model="llama",
    head="LlamaForCausalLM",
    config=_LLAMA_1B,
    shape=Shape(8, 4096),
    task="causal",
    contestants=(
        SDPA,
        Contestant(
            "llama_sdpa + compile", "variant", "llama_sdpa", compiled="whole", settings=_RIGHT_PADDED, no_mask=True
        ),
    ),
)

CASES = (L1,)
