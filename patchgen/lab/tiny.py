"""Configurations so small that every gradient of a model can be compared in float64, and batches for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig

# By the names that transformers gives them in every configuration, through `attribute_map` where a model has its own.
# No two sizes are equal, so that a transposed or swapped axis cannot fit; two query heads share a key head.
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FIRST_WORD = 3  # tokens below are special

Padding = Literal["none", "right", "left"]


def tiny_config(model_type: str, **changes: Any) -> PreTrainedConfig:
    """A tiny configuration of `model_type` without dropout, with `changes`."""
    kind = CONFIG_MAPPING[model_type]
    default = kind()
    sizes = {name: size for name, size in SIZES.items() if hasattr(default, name)}
    no_dropout = {
        name: 0.0 for name, value in default.to_dict().items() if "drop" in name and isinstance(value, float)
    }
    return kind(**{**sizes, **no_dropout, **changes})


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of shape (rows, length) with what a model is trained on, and which of them are real."""

    input_ids: Tensor
    attention_mask: Tensor | None  # None: nothing is padded
    labels: Tensor
    real: Tensor  # bool

    def inputs(self) -> dict[str, Tensor]:
        """The arguments of a model's forward; no mask where nothing is padded."""
        given = {"input_ids": self.input_ids, "attention_mask": self.attention_mask, "labels": self.labels}
        return {name: value for name, value in given.items() if value is not None}


def batch(padding: Padding = "none", *, rows: int = 3, length: int = 13, seed: int = 0) -> Batch:
    """Random words, `row` times three of them replaced by padding at the given side; the first row has none.

    No label rests on a padded token, whose own output is nobody's business: a causal model predicts the first real
    word of a row padded on the left from padding.
    """
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, SIZES["vocab_size"], (rows, length), generator=draw)
    real = torch.ones(rows, length, dtype=torch.bool)
    if padding != "none":
        kept = length - 3 * torch.arange(rows)[:, None]
        place = torch.arange(length)[None, :]
        real = place < kept if padding == "right" else place >= length - kept
    ids = ids.masked_fill(~real, SIZES["pad_token_id"])
    predicted_from_real = real & real.roll(1, dims=1)
    predicted_from_real[:, 0] = False
    labels = ids.masked_fill(~predicted_from_real, -100)
    return Batch(ids, None if padding == "none" else real.long(), labels, real)
