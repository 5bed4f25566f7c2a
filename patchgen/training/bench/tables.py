"""Two classic studies of training BERT, repeated and extended by variants.

finetune  from float32 to all methods at once, each row adding one method to the row above
pretrain  the same for masked language modelling: autocast, compilation, flash attention, both
memory    BERT-large with methods that save memory, one at a time and then together

The order of rows is that of the studies.  Weights and texts are random, so speed and memory can be
compared, and scores cannot.  As in the studies, weights are float32 under autocast, unless a row
says otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import Entry, variant

_BERT_BASE = (("vocab_size", 30522), ("hidden_size", 768), ("num_hidden_layers", 12))
_BERT_LARGE = (
    ("vocab_size", 30522),
    ("hidden_size", 1024),
    ("num_hidden_layers", 24),
    ("num_attention_heads", 16),
    ("intermediate_size", 4096),
)
_LABELLED = (("max_labelled_fraction", 0.16),)
_AUTOCAST_LABELLED: dict[str, Any] = {"precision": "amp-bf16", "settings": _LABELLED}
_LARGER = 128

_FLOAT32 = Entry(
    "float32, one tensor at a time", attention="eager", precision="fp32", optimizer="adamw-loop"
)
_FOREACH = replace(_FLOAT32, name="+ optimizer by lists (foreach)", optimizer="adamw-foreach")
_TF32 = replace(_FOREACH, name="+ TF32", precision="tf32")
_FLOAT16 = replace(_TF32, name="+ float16 (autocast)", precision="amp-fp16")
_BFLOAT16 = replace(_TF32, name="+ bfloat16 (autocast) in its place", precision="amp-bf16")
_ROWS = replace(_BFLOAT16, name="+ larger batch", rows=_LARGER)
_COMPILED = replace(_ROWS, name="+ compile", compiled="whole")
_SDPA = replace(_COMPILED, name="+ SDPA", attention="sdpa")
_NORM = replace(
    _SDPA, name="+ LayerNorm in bfloat16 (bert_norm)", role="variant", variant="bert_norm"
)
_FUSED = replace(_NORM, name="+ fused optimizer", optimizer="adamw")
_EIGHT = replace(_NORM, name="+ optimizer in 8 bits in its place", optimizer="adamw-8bit")
_PURE = replace(
    _SDPA, name="stock, weights in bfloat16, fused", precision="pure-bf16", optimizer="adamw"
)
_PADDING_FREE = variant(
    "bert_padding_free",
    suffix=", weights in bfloat16, fused",
    precision="pure-bf16",
    optimizer="adamw",
    rows=_LARGER,
)

FINETUNE = Case(
    id="finetune",
    group="bert",
    about="BERT-base, classification, 32 rows of 32 to 128, padded (larger batch: 128 rows)",
    model="bert",
    head="BertForSequenceClassification",
    config=_BERT_BASE,
    shape=Shape(32, 128, shortest=32),
    task="classify",
    entries=(
        *(
            _FLOAT32,
            _FOREACH,
            _TF32,
            _FLOAT16,
            _BFLOAT16,
            _ROWS,
            _COMPILED,
            _SDPA,
            _NORM,
            _FUSED,
            _EIGHT,
        ),
        *(_PURE, _PADDING_FREE),
    ),
    # The published ratio, without SDPA and variants.
    targets=(Target(("bert_norm", "bert_padding_free"), (_FLOAT32.name,), "speed", 2.06),),
    baseline=_FLOAT32.name,
    seconds=180,
)

_AUTOCAST = Entry("autocast", attention="eager", precision="amp-bf16")
_FLASH = replace(_AUTOCAST, name="autocast + flash attention", attention="sdpa", backend="flash")
_BOTH = replace(_AUTOCAST, name="autocast + SDPA + compile", attention="sdpa", compiled="whole")
_FIVE = replace(
    _BOTH,
    name="autocast + five lines + compile",
    role="competitor",
    attention="mask_free",
    no_mask=True,
)

PRETRAIN = Case(
    id="pretrain",
    group="bert",
    about="BERT-base, masked LM, 32 full rows of 512",
    model="bert",
    head="BertForMaskedLM",
    config=_BERT_BASE,
    shape=Shape(32, 512),
    task="masked",
    entries=(
        Entry("float32", attention="eager", precision="fp32"),
        _AUTOCAST,
        replace(_AUTOCAST, name="autocast + compile", compiled="whole"),
        _FLASH,
        _BOTH,
        _FIVE,
        variant("bert_mlm", "whole", suffix=", autocast", **_AUTOCAST_LABELLED),
        variant(
            "bert_mlm_padding_free",
            "whole",
            suffix=", autocast",
            precision="amp-bf16",
            settings=_LABELLED,
        ),
        variant(
            "bert_mlm_padding_free", "whole", suffix=", weights in bfloat16", settings=_LABELLED
        ),
    ),
    # The published ratio of flash attention with compilation to autocast alone.
    targets=(Target(("bert_mlm", "bert_mlm_padding_free"), ("autocast",), "speed", 1.37),),
    baseline="float32",
    seconds=180,
)

_PLAIN = Entry("float32", attention="eager", precision="fp32", optimizer="adamw-foreach")
_PARTS = replace(_PLAIN, name="accumulation, 4 parts", accumulate=4)
_CHECKPOINTED = replace(_PLAIN, name="checkpointing", checkpoint="full")
_MIXED = replace(_PLAIN, name="autocast to bfloat16", precision="amp-bf16")
_ALL = replace(
    _MIXED,
    name="all of these, Adafactor",
    accumulate=4,
    checkpoint="full",
    optimizer="torch-adafactor",
)
_NARROW = replace(
    _ALL, name="all of these, Adafactor, SDPA, bfloat16", attention="sdpa", precision="pure-bf16"
)

MEMORY = Case(
    id="memory",
    group="bert",
    about="BERT-large, classification, 4 full rows of 512",
    model="bert",
    head="BertForSequenceClassification",
    config=_BERT_LARGE,
    shape=Shape(4, 512),
    task="classify",
    entries=(
        _PLAIN,
        _PARTS,
        _CHECKPOINTED,
        _MIXED,
        replace(_PLAIN, name="Adafactor", optimizer="torch-adafactor"),
        replace(_PLAIN, name="AdamW in 8 bits", optimizer="adamw-8bit"),
        _ALL,
        replace(_ALL, name="all of these, AdamW in 8 bits", optimizer="adamw-8bit"),
        replace(_PLAIN, name="SDPA", attention="sdpa"),
        replace(_ALL, name="all of these, Adafactor, SDPA", attention="sdpa"),
        variant(
            "bert_norm",
            suffix=", autocast to bfloat16",
            precision="amp-bf16",
            optimizer="adamw-foreach",
        ),
        _NARROW,
    ),
    baseline="float32",
    seconds=180,
)
