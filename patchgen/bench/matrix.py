"""The matrix: what is trained by whom, and what is hoped for.

The contestants that say most stand first: where the time of a case is up, the others have none.  Whole models are
compiled where the mask that transformers makes then is the point; layers elsewhere, which takes seconds.

Sizes are those of published models, weights are drawn.  Targets are what `docs/benchmarks.md` gives reasons for.
"""

from __future__ import annotations

from typing import Any

from patchgen.bench.case import Case, Shape, Target
from patchgen.bench.contestant import (
    CHECKPOINTED,
    COMPILED,
    CUDNN,
    EAGER,
    FIVE_LINES,
    FIVE_LINES_COMPILED,
    FLASH,
    FLASH2,
    LAYERS,
    LIGER,
    LIGER_LAYERS,
    OFFLOADED,
    SDPA,
    TORCH_FLASH,
    Compiled,
    Contestant,
)

_BERT_BASE = (("vocab_size", 30522), ("hidden_size", 768), ("num_hidden_layers", 12))
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
# Few words: what is asked of a mixture of experts is its layers.
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
_MPNET_BASE = (("vocab_size", 30527),)
_BLOOM_560M = (("vocab_size", 250880), ("hidden_size", 1024), ("n_layer", 24), ("n_head", 16))

_LIGER = (LIGER.name, LIGER_LAYERS.name)
_RIGHT_PADDED = (("assume_right_padding", True),)
# A text has no more labels than 15 of 100 of its tokens, and at least one.
_LABELLED = (("max_labelled_fraction", 0.16),)


def variant(name: str, compiled: Compiled = "", *, said: str = "", **more: Any) -> Contestant:
    """A variant of the gallery; its row is named after it, with `said` behind."""
    ways = {"whole": " + compile", "layers": " + compiled layers", "graphs": " + CUDA graphs", "": ""}
    return Contestant(f"{name}{said}{ways[compiled]}", "variant", name, compiled=compiled, **more)


def _fields(**more: Any) -> dict[str, Any]:
    return more


_FIVE = _fields(said=" + five lines", attention="mask_free", no_mask=True)

B1 = Case(
    id="B1",
    group="bert",
    about="BERT-base, masked LM, 64 full rows of 512",
    model="bert",
    head="BertForMaskedLM",
    config=_BERT_BASE,
    shape=Shape(64, 512),
    task="masked",
    contestants=(
        SDPA,
        COMPILED,
        FIVE_LINES_COMPILED,
        LAYERS,
        variant("bert_mlm", "layers", no_mask=True),
        variant("bert_mlm_padding_free", "layers", no_mask=True),
        FIVE_LINES,
        variant("bert_mlm", saves=0.85),
        variant("bert_mlm_padding_free"),
        variant("bert_mlm", "whole", settings=_LABELLED, **_FIVE),
        variant("bert_sdpa", no_mask=True),
        EAGER,
        CUDNN,
        FLASH,
        CHECKPOINTED,
    ),
    targets=(
        Target(("bert_mlm", "bert_mlm_padding_free"), ("sdpa",), "speed", 1.45),
        Target(("bert_mlm", "bert_mlm_padding_free"), ("sdpa + compile",), "speed", 1.35),
    ),
    seconds=50,
)
B2 = Case(
    id="B2",
    group="bert",
    about="BERT-base, masked LM, 64 rows of 32 to 512, padded; five lines without a mask would be wrong here",
    model="bert",
    head="BertForMaskedLM",
    config=_BERT_BASE,
    shape=Shape(64, 512, shortest=32),
    task="masked",
    contestants=(
        SDPA,
        COMPILED,
        variant("bert_mlm_padding_free", "layers"),
        variant("bert_mlm_padding_free", saves=0.85),
        variant("bert_padding_free", saves=0.95),
        TORCH_FLASH,
        LAYERS,
        FLASH2,
        EAGER,
        CUDNN,
    ),
    targets=(Target(("bert_mlm_padding_free",), ("sdpa + compile",), "speed", 2.4),),
    seconds=32,
)
B3 = Case(
    id="B3",
    group="bert",
    about="BERT-base, classification, 32 full rows of 128",
    model="bert",
    head="BertForSequenceClassification",
    config=_BERT_BASE,
    shape=Shape(32, 128),
    task="classify",
    contestants=(
        SDPA,
        Contestant("sdpa + CUDA graphs", compiled="graphs"),
        Contestant("five lines + CUDA graphs", "rival", attention="mask_free", compiled="graphs", no_mask=True),
        variant("bert_sdpa", "graphs"),
        COMPILED,
        FIVE_LINES,
        EAGER,
    ),
    targets=(Target(("bert_sdpa",), ("sdpa",), "speed", 1.5),),
    seconds=35,
)
L1 = Case(
    id="L1",
    group="llama",
    about="Llama-3.2-1B, 8 full rows of 4096",
    model="llama",
    head="LlamaForCausalLM",
    config=_LLAMA_1B,
    shape=Shape(8, 4096),
    task="causal",
    contestants=(
        SDPA,
        COMPILED,
        FIVE_LINES_COMPILED,
        LIGER,
        LAYERS,
        variant("llama_sdpa_checkpoint_loss", "layers", settings=_RIGHT_PADDED, no_mask=True),
        LIGER_LAYERS,
        FIVE_LINES,
        variant("llama_loss", saves=0.95),
        variant("llama_sdpa_checkpoint_loss", said=", selective", checkpoint="selective", no_mask=True, saves=0.9),
        CHECKPOINTED,
        variant("llama_sdpa", "whole", settings=_RIGHT_PADDED, no_mask=True),
        CUDNN,
        FLASH,
        variant("llama_sdpa", no_mask=True),
        Contestant("eager, 1 row, checkpointed", attention="eager", rows=1, checkpoint="full"),
    ),
    targets=(
        Target(("llama_sdpa_checkpoint_loss", "llama_sdpa", "llama_loss"), ("sdpa",), "speed", 1.2),
        Target(("llama_sdpa_checkpoint_loss", "llama_sdpa"), ("sdpa + compile",), "speed", 1.4),
        Target(("llama_sdpa_checkpoint_loss", "llama_loss"), ("sdpa",), "memory", 0.55),
        Target(("llama_sdpa_checkpoint_loss, selective",), ("sdpa",), "speed", 0.94),
        Target(
            ("llama_sdpa_checkpoint_loss", "llama_sdpa", "llama_loss"),
            ("Liger", "Liger + compiled layers"),
            "speed",
            1.03,
        ),
        Target(("llama_sdpa_checkpoint_loss", "llama_loss"), _LIGER, "memory", 1.0),
        Target(("llama_sdpa_checkpoint_loss", "llama_sdpa", "llama_loss"), (), "rate", 495e12),
    ),
    turns=((2, 4), (1, 3)),
    seconds=105,
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
    contestants=(
        SDPA,
        variant("llama_packed", said=", packed", layout="packed", saves=0.95),
        variant("llama_packed", "layers", said=", packed", layout="packed"),
        LIGER,
        variant("llama_packed", said=", padded", saves=0.95),
        Contestant("flash_attention_2, packed, torch's kernels", attention="unpadding", layout="flat"),
        Contestant("sdpa, packed", layout="packed"),
        FIVE_LINES,
        LAYERS,
        Contestant("Liger, packed", liger=True, layout="packed"),
        Contestant("flash_attention_2, packed", attention="flash_attention_2", layout="flat"),
    ),
    targets=(
        Target(("llama_packed",), ("sdpa",), "speed", 2.0),
        Target(("llama_packed",), ("Liger",), "speed", 1.7),
    ),
    turns=((2, 4), (1, 3)),
    seconds=40,
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
    contestants=(
        SDPA,
        CHECKPOINTED,
        variant("llama_sdpa_checkpoint_loss", said=", full", checkpoint="full"),
        variant("llama_sdpa_checkpoint_loss", said=", selective", checkpoint="selective"),
        Contestant("Liger + checkpointing", liger=True, checkpoint="full"),
        OFFLOADED,
    ),
    targets=(
        Target(("llama_sdpa_checkpoint_loss",), ("sdpa",), "rows", 2.5),
        Target(("llama_sdpa_checkpoint_loss",), ("Liger + checkpointing",), "rows", 1.2),
    ),
    seconds=40,
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
    contestants=(
        SDPA,
        COMPILED,
        FIVE_LINES,
        FIVE_LINES_COMPILED,
        variant("gpt2_gelu", saves=0.85),
        variant("gpt2_loss", saves=0.9),
        variant("gpt2_loss", "layers", no_mask=True),
        variant("gpt2_sdpa"),
        EAGER,
        CUDNN,
        FLASH,
        CHECKPOINTED,
    ),
    targets=(
        Target(("gpt2_loss", "gpt2_gelu"), ("sdpa + compile",), "speed", 1.3),
        Target(("gpt2_loss",), ("sdpa + compile",), "memory", 0.6),
    ),
    seconds=38,
)
M1 = Case(
    id="M1",
    group="experts",
    about="Qwen3-MoE, 4 layers of width 2048 with 64 experts of 768, 8 of them chosen; 4 rows of 4096",
    model="qwen3_moe",
    head="Qwen3MoeForCausalLM",
    config=_QWEN3_MOE_BLOCKS,
    shape=Shape(4, 4096),
    task="causal",
    contestants=(
        SDPA,
        LIGER,
        variant("qwen3_moe_checkpoint_loss"),
        variant("qwen3_moe_checkpoint_loss", said=", selective", checkpoint="selective", saves=0.9),
        CHECKPOINTED,
        LAYERS,
        FIVE_LINES,
        Contestant("sdpa, experts in a loop", experts="eager"),
    ),
    targets=(
        Target(("qwen3_moe_checkpoint_loss",), ("sdpa",), "speed", 1.25),
        Target(("qwen3_moe_checkpoint_loss",), ("sdpa",), "memory", 0.7),
        Target(("qwen3_moe_checkpoint_loss",), ("Liger",), "speed", 1.0),
    ),
    seconds=18,
)
M2 = Case(
    id="M2",
    group="experts",
    about="Llama 4, 2 layers of width 1024 with 16 experts of 2048, one of them chosen; 4 rows of 2048",
    model="llama4_text",
    head="Llama4ForCausalLM",
    config=_LLAMA4_BLOCKS,
    shape=Shape(4, 2048),
    task="causal",
    contestants=(
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
X1_MPNET = Case(
    id="X1-mpnet",
    group="legacy",
    about="MPNet-base, which transformers has without SDPA and checkpointing: masked LM, 32 full rows of 512",
    model="mpnet",
    head="MPNetForMaskedLM",
    config=_MPNET_BASE,
    shape=Shape(32, 512),
    task="masked",
    contestants=(
        EAGER,
        variant("mpnet_sdpa_checkpoint"),
        Contestant("eager + compiled layers", attention="eager", compiled="layers"),
        variant("mpnet_sdpa_checkpoint", "layers"),
        variant("mpnet_sdpa_checkpoint", said=", full", checkpoint="full", saves=0.6),
        variant("mpnet_sdpa_checkpoint", said=", selective", checkpoint="selective", saves=0.8),
    ),
    targets=(Target(("mpnet_sdpa_checkpoint",), ("eager",), "speed", 1.5),),
    anchor="eager",
    seconds=14,
)
X1_ROWS = Case(
    id="X1-rows",
    group="legacy",
    about="MPNet-base, how many rows of 512 fit into 130 GiB",
    model="mpnet",
    head="MPNetForMaskedLM",
    config=_MPNET_BASE,
    shape=Shape(32, 512),
    task="masked",
    contestants=(
        EAGER,
        variant("mpnet_sdpa_checkpoint", said=", full", checkpoint="full"),
    ),
    targets=(Target(("mpnet_sdpa_checkpoint",), ("eager",), "rows", 2.0),),
    anchor="eager",
    seconds=10,
    fits=True,
)
X1_BLOOM = Case(
    id="X1-bloom",
    group="legacy",
    about="BLOOM-560m, which transformers has without SDPA: 8 full rows of 2048",
    model="bloom",
    head="BloomForCausalLM",
    config=_BLOOM_560M,
    shape=Shape(8, 2048),
    task="causal",
    contestants=(
        Contestant("eager, checkpointed", attention="eager", checkpoint="full", saves=0.7),
        EAGER,
        variant("bloom_sdpa"),
        variant("bloom_sdpa", "layers"),
        Contestant("eager + compiled layers", attention="eager", compiled="layers"),
        Contestant("eager, 4 rows", attention="eager", rows=4),
    ),
    targets=(Target(("bloom_sdpa",), ("eager", "eager, 4 rows"), "speed", 2.0),),
    anchor="eager",
    seconds=20,
)

CASES = (B1, B2, B3, L1, L2, L3, G1, M1, M2, X1_MPNET, X1_ROWS, X1_BLOOM)
