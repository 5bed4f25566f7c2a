"""B1 and B2: BERT-base."""

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
    FLASH2,
    LAYERS,
    SDPA,
    TORCH_FLASH,
    variant,
    with_autocast,
)

_BERT_BASE = (("vocab_size", 30522), ("hidden_size", 768), ("num_hidden_layers", 12))
# At most 15 of 100 tokens of a text have a label, and at least one.
_LABELLED = (("max_labelled_fraction", 0.16),)
_FIVE: dict[str, Any] = {"suffix": " + five lines", "attention": "mask_free", "no_mask": True}

B1 = Case(
    id="B1",
    group="bert",
    about="BERT-base, masked LM, 64 full rows of 512",
    model="bert",
    head="BertForMaskedLM",
    config=_BERT_BASE,
    shape=Shape(64, 512),
    task="masked",
    entries=(
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
        EAGER,
        CUDNN,
        FLASH,
        CHECKPOINTED,
    ),
    targets=(
        Target(("bert_mlm", "bert_mlm_padding_free"), ("sdpa",), "speed", 1.45),
        Target(("bert_mlm", "bert_mlm_padding_free"), ("sdpa + compile",), "speed", 1.35),
    ),
    seconds=47,
)
B2 = Case(
    id="B2",
    group="bert",
    about="BERT-base, masked LM, 64 rows of 32 to 512, padded; five lines without a mask would be "
    "wrong here",
    model="bert",
    head="BertForMaskedLM",
    config=_BERT_BASE,
    shape=Shape(64, 512, shortest=32),
    task="masked",
    entries=(
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
# As most people train: float32 weights under autocast, dropout, and batches of many lengths.
B2_AMP = replace(
    B2,
    id="B2-amp",
    about="the texts of B2 in batches of many lengths; float32 weights under autocast, dropout "
    "of 0.1",
    entries=with_autocast(
        SDPA,
        COMPILED,
        variant("bert_mlm_padding_free"),
        variant("bert_mlm_padding_free", "layers"),
        variant("bert_padding_free"),
        LAYERS,
        TORCH_FLASH,
    ),
    targets=(Target(("bert_mlm_padding_free",), ("sdpa",), "speed", 1.8),),
    seconds=14,
    dropout=True,
    batches=4,
)
