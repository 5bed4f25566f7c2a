"""X1: models that transformers has without SDPA, one of them without checkpointing too."""

from __future__ import annotations

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import EAGER, Entry, variant

# The first two positions are not used: rows of 512 need 514, as in the published model.
_MPNET_BASE = (("vocab_size", 30527), ("max_position_embeddings", 514))
_BLOOM_560M = (("vocab_size", 250880), ("hidden_size", 1024), ("n_layer", 24), ("n_head", 16))
_MEGATRON_345M = (
    ("vocab_size", 29056),
    ("hidden_size", 1024),
    ("num_hidden_layers", 24),
    ("num_attention_heads", 16),
    ("intermediate_size", 4096),
)
_XGLM_564M = (
    ("vocab_size", 256008),
    ("d_model", 1024),
    ("ffn_dim", 4096),
    ("num_layers", 24),
    ("attention_heads", 16),
)

X1_MPNET = Case(
    id="X1-mpnet",
    group="legacy",
    about="MPNet-base, which transformers has without SDPA and checkpointing: masked LM, 32 full "
    "rows of 512",
    model="mpnet",
    head="MPNetForMaskedLM",
    config=_MPNET_BASE,
    shape=Shape(32, 512),
    task="masked",
    entries=(
        EAGER,
        variant("mpnet_sdpa_checkpoint"),
        Entry("eager + compiled layers", attention="eager", compiled="layers"),
        variant("mpnet_sdpa_checkpoint", "layers"),
        variant("mpnet_sdpa_checkpoint", suffix=", full", checkpoint="full", saves=0.6),
        variant("mpnet_sdpa_checkpoint", suffix=", selective", checkpoint="selective", saves=0.8),
    ),
    targets=(Target(("mpnet_sdpa_checkpoint",), ("eager",), "speed", 1.5),),
    baseline="eager",
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
    entries=(
        EAGER,
        variant("mpnet_sdpa_checkpoint", suffix=", full", checkpoint="full"),
    ),
    targets=(Target(("mpnet_sdpa_checkpoint",), ("eager",), "rows", 2.0),),
    baseline="eager",
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
    entries=(
        Entry("eager, checkpointed", attention="eager", checkpoint="full", saves=0.7),
        EAGER,
        variant("bloom_sdpa"),
        variant("bloom_sdpa", "layers"),
        Entry("eager + compiled layers", attention="eager", compiled="layers"),
        Entry("eager, 4 rows", attention="eager", rows=4),
    ),
    targets=(Target(("bloom_sdpa",), ("eager", "eager, 4 rows"), "speed", 2.0),),
    baseline="eager",
    seconds=15,
)
X1_MEGATRON = Case(
    id="X1-megatron",
    group="legacy",
    about="Megatron-BERT of 345M, which transformers has without SDPA: masked LM, 32 full rows of "
    "512",
    model="megatron-bert",
    head="MegatronBertForMaskedLM",
    config=_MEGATRON_345M,
    shape=Shape(32, 512),
    task="masked",
    entries=(
        EAGER,
        variant("megatron_bert_sdpa_checkpoint_loss"),
        Entry("eager + compiled layers", attention="eager", compiled="layers"),
        variant("megatron_bert_sdpa_checkpoint_loss", "layers"),
        Entry("eager, checkpointed", attention="eager", checkpoint="full", saves=0.7),
        variant(
            "megatron_bert_sdpa_checkpoint_loss",
            suffix=", selective",
            checkpoint="selective",
            saves=0.7,
        ),
    ),
    targets=(Target(("megatron_bert_sdpa_checkpoint_loss",), ("eager",), "speed", 1.5),),
    baseline="eager",
    seconds=11,
)
X1_XGLM = Case(
    id="X1-xglm",
    group="legacy",
    about="XGLM-564M, which transformers has without SDPA: 8 full rows of 2048",
    model="xglm",
    head="XGLMForCausalLM",
    config=_XGLM_564M,
    shape=Shape(8, 2048),
    task="causal",
    entries=(
        Entry("eager, checkpointed", attention="eager", checkpoint="full", saves=0.7),
        EAGER,
        variant("xglm_sdpa_checkpoint_loss"),
        variant("xglm_sdpa_checkpoint_loss", "layers"),
        Entry("eager + compiled layers", attention="eager", compiled="layers"),
        Entry("eager, 4 rows", attention="eager", rows=4),
        variant("xglm_sdpa_checkpoint_loss", suffix=", full", checkpoint="full", saves=0.6),
    ),
    targets=(Target(("xglm_sdpa_checkpoint_loss",), ("eager", "eager, 4 rows"), "speed", 2.0),),
    baseline="eager",
    seconds=11,
)
