"""Configurations so small that every gradient of a model can be compared in float64, and batches for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig

from patchgen.lab.families import FAMILIES

# By the names that transformers gives them in every configuration, through `attribute_map` where a model has its own.
# No two sizes are equal, so that a transposed or swapped axis cannot fit; two query heads share a key head.  Features
# are multiples of eight, which grouped matmul wants in bfloat16.
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
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

# The same by the names of models that have no `attribute_map` for them, and sizes that only some have.
MORE_SIZES = {
    **dict.fromkeys(("d_model", "n_embd", "dim", "embed_dim"), SIZES["hidden_size"]),
    **dict.fromkeys(
        ("d_ff", "d_inner", "ffn_dim", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim"), SIZES["intermediate_size"]
    ),
    **dict.fromkeys(("d_kv", "d_head", "head_dim"), SIZES["hidden_size"] // SIZES["num_attention_heads"]),
    **dict.fromkeys(("n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_layers", "n_layer", "num_decoder_layers", "encoder_layers", "decoder_layers"), 3),
    **dict.fromkeys(("n_positions", "n_ctx", "max_target_positions"), SIZES["max_position_embeddings"]),
    **dict.fromkeys(("num_experts", "n_routed_experts", "moe_num_experts"), SIZES["num_local_experts"]),
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "intermediate_size_mlp": 40,
    "embedding_size": 16,
    "image_size": 12,
    "patch_size": 3,
    # Of mixtures of experts, whose defaults leave three layers without any, and of latent attention.
    **dict.fromkeys(("moe_topk", "moe_top_k"), SIZES["num_experts_per_tok"]),
    **dict.fromkeys(("ffn_hidden_size", "expert_ffn_hidden_size", "share_expert_dim"), 40),
    "encoder_sparse_step": 2,
    "zero_expert_num": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 24,
}
# Of models whose layers come in stages (Swin), in place of the above.
STAGES = {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": 16, "image_size": 32, "patch_size": 2, "window_size": 4}

# By model type: what checkpoints set, and without which the model cannot be made or run.
SET_BY_CHECKPOINTS: dict[str, dict[str, Any]] = {
    "dbrx": {
        "d_model": 32,  # by this name before it comes to the experts
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 40, "moe_num_experts": 5, "moe_top_k": 2},
    },
    "longcat_flash": {"num_key_value_heads": SIZES["num_attention_heads"]},
    "step3p5": {"sliding_window": 5},
}

Padding = Literal["none", "right", "left"]


def tiny_config(model: str | type[PreTrainedConfig], dropout: float = 0.0, **changes: Any) -> PreTrainedConfig:
    """A tiny configuration of a model type or class, every rate of dropout at `dropout`, with `changes`."""
    kind = CONFIG_MAPPING[model] if isinstance(model, str) else model
    default = kind()
    # What a decoder starts from is set by checkpoints, not by configurations.
    start = {"decoder_start_token_id": SIZES["pad_token_id"]} if default.is_encoder_decoder else {}
    return kind(**{**start, **_tiny(default, dropout), **changes})


def _tiny(default: PreTrainedConfig, dropout: float) -> dict[str, Any]:
    """What to change in `default`, and in the configurations inside it."""
    parts = {}
    for name in default.sub_configs:
        part = getattr(default, name)
        parts[name] = type(part)(**{**part.to_dict(), **_layers(part), **_tiny(part, dropout)})
    known = {**FAMILIES.get(default.model_type, {}), **SET_BY_CHECKPOINTS.get(default.model_type, {})}
    return {**_sizes(default), **dict.fromkeys(_rates(default), dropout), **parts, **known}


def _layers(default: PreTrainedConfig) -> dict[str, Any]:
    """Lists that have an entry for each layer, those of the last layers."""
    layers, kept = getattr(default, "num_hidden_layers", None), SIZES["num_hidden_layers"]
    lists = {name: value for name, value in default.to_dict().items() if isinstance(value, list)}
    return {name: value[-kept:] for name, value in lists.items() if len(value) == layers}


def _sizes(default: PreTrainedConfig) -> dict[str, Any]:
    in_stages = _has(default, "depths")
    common = {name: size for name, size in SIZES.items() if not (in_stages and name.startswith("num_"))}
    mapped = {default.attribute_map[name] for name in common if name in default.attribute_map}
    wanted = {**MORE_SIZES, **common, **(STAGES if in_stages else {})}
    return {name: size for name, size in wanted.items() if _has(default, name) and name not in mapped}


def _has(config: PreTrainedConfig, name: str) -> bool:
    # XLNet has a property for the longest sequence, which refuses to be set: it has none.
    return not isinstance(getattr(type(config), name, None), property) and hasattr(config, name)


def _rates(default: PreTrainedConfig) -> list[str]:
    return [name for name, value in default.to_dict().items() if "drop" in name and isinstance(value, float)]


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
    """Random words, `row` times five of them replaced by padding at the given side; the first row has none.

    No label rests on a padded token, whose own output is nobody's business: a causal model predicts the first real
    word of a row padded on the left from padding.
    """
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, SIZES["vocab_size"], (rows, length), generator=draw)
    real = torch.ones(rows, length, dtype=torch.bool)
    if padding != "none":
        kept = length - 5 * torch.arange(rows)[:, None]
        place = torch.arange(length)[None, :]
        real = place < kept if padding == "right" else place >= length - kept
    ids = ids.masked_fill(~real, SIZES["pad_token_id"])
    predicted_from_real = real & real.roll(1, dims=1)
    predicted_from_real[:, 0] = False
    labels = ids.masked_fill(~predicted_from_real, -100)
    return Batch(ids, None if padding == "none" else real.long(), labels, real)
