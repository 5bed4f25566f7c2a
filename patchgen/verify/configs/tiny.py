"""Configurations so small that every gradient of a model can be compared in float64, and batches for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig

try:  # which names mean a size, in the models that it knows
    from optimum.utils import NormalizedConfigManager
except ImportError:
    NormalizedConfigManager = None

from patchgen.verify.configs.families import FAMILIES

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
        ("d_ff", "d_inner", "ffn_dim", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim"),
        SIZES["intermediate_size"],
    ),
    **dict.fromkeys(
        ("d_kv", "d_head", "head_dim"), SIZES["hidden_size"] // SIZES["num_attention_heads"]
    ),
    **dict.fromkeys(
        ("n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4
    ),
    **dict.fromkeys(
        ("num_layers", "n_layer", "num_decoder_layers", "encoder_layers", "decoder_layers"), 3
    ),
    **dict.fromkeys(
        ("n_positions", "n_ctx", "max_target_positions"), SIZES["max_position_embeddings"]
    ),
    **dict.fromkeys(
        ("num_experts", "n_routed_experts", "moe_num_experts"), SIZES["num_local_experts"]
    ),
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "intermediate_size_mlp": 40,
    "embedding_size": 16,
    "image_size": 12,
    "patch_size": 3,
    "max_image_size": 24,
    "output_channels": SIZES["hidden_size"],  # of Sam's encoder, which prompts are added to
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
    "rotary_dim": 4,
    # Groups of experts would be larger than there are experts.
    **dict.fromkeys(("n_group", "topk_group"), 1),
    # With three layers none would be left that keeps the keys that others share.
    "num_kv_shared_layers": 0,
    # Of what goes into the text model from another one.
    **dict.fromkeys(
        ("out_hidden_size", "text_hidden_size", "audio_hidden_size"), SIZES["hidden_size"]
    ),
    # State spaces: heads times their size is what hidden_size is expanded to, which is twice as much.
    **dict.fromkeys(("mamba_n_heads", "mamba_d_state"), 4),
    "mamba_d_head": 16,
    "mamba_d_ssm": 64,
}
# What optimum calls a size, and the name here.
NORMALIZED = {
    "VOCAB_SIZE": "vocab_size",
    "HIDDEN_SIZE": "hidden_size",
    "NUM_LAYERS": "num_hidden_layers",
    "ENCODER_NUM_LAYERS": "num_hidden_layers",
    "DECODER_NUM_LAYERS": "num_hidden_layers",
    "NUM_ATTENTION_HEADS": "num_attention_heads",
    "ENCODER_NUM_ATTENTION_HEADS": "num_attention_heads",
    "DECODER_NUM_ATTENTION_HEADS": "num_attention_heads",
    "NUM_KEY_VALUE_HEADS": "num_key_value_heads",
}
# Of names that nobody knows: sizes above what all of a tiny model's are, and what they become by what they end with.
LARGE = 256
SHRUNK = {
    r"vocab": SIZES["vocab_size"],
    r"(hidden|emb\w*)_(size|dim)$|^d_\w+$|_dim$": SIZES["hidden_size"],
    r"(intermediate|ffn|mlp|ff)\w*_(size|dim)$": SIZES["intermediate_size"],
}
# Of models whose layers come in stages (Swin), in place of the above.
STAGES = {
    "depths": [2, 2],
    "num_heads": [2, 4],
    "embed_dim": 16,
    "image_size": 32,
    "patch_size": 2,
    "window_size": 4,
}

# By model type: what checkpoints set, and without which the model cannot be made or run.
SET_BY_CHECKPOINTS: dict[str, dict[str, Any]] = {
    "dbrx": {
        "d_model": 32,  # by this name before it comes to the experts
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {
            "hidden_size": 32,
            "ffn_hidden_size": 40,
            "moe_num_experts": 5,
            "moe_top_k": 2,
        },
    },
    "dots1": {"n_shared_experts": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "longcat_flash": {"num_key_value_heads": SIZES["num_attention_heads"]},
    "mamba2": {"head_dim": 16, "n_groups": 1},
    **dict.fromkeys(
        ("qwen2_5_omni_thinker", "qwen3_omni_moe_thinker"), {"vision_start_token_id": 151652}
    ),
    "step3p5": {"sliding_window": 5},
    "xmod": {"default_language": "en_XX"},
}

Padding = Literal["none", "right", "left"]


def tiny_config(
    model: str | type[PreTrainedConfig], dropout: float = 0.0, **changes: Any
) -> PreTrainedConfig:
    """A tiny configuration of a model type or class, every rate of dropout at `dropout`, with `changes`.

    Sizes by the names that transformers maps, that optimum knows in this model type, and that `MORE_SIZES` has; what
    is still large by what its name ends with.  Where the configuration refuses them together, the concessions below
    are tried; where it takes none, its first refusal is raised.
    """
    kind = CONFIG_MAPPING[model] if isinstance(model, str) else model
    default = kind()
    # What a decoder starts from is set by checkpoints, not by configurations.
    start = {"decoder_start_token_id": SIZES["pad_token_id"]} if default.is_encoder_decoder else {}
    tiny = {**start, **_tiny(default, dropout)}
    return _accepted(default, lambda conceded: {**tiny, **conceded, **changes})


def _accepted(
    default: PreTrainedConfig, made: Callable[[dict[str, Any]], dict[str, Any]]
) -> PreTrainedConfig:
    refusals = []
    for conceded in _concessions(default):
        try:
            return type(default)(**made(conceded))
        except Exception as error:  # each configuration has its own
            refusals.append(error)
    raise refusals[0]


def _concessions(default: PreTrainedConfig) -> Iterator[dict[str, Any]]:
    """What some models insist on: a key for every query head, one expert for a token, lists of layers cut."""
    yield {}
    yield dict.fromkeys(_named(default, "num_key_value_heads"), SIZES["num_attention_heads"])
    yield dict.fromkeys(_named(default, "num_experts_per_tok"), 1)
    yield _layers(default)
    yield _layers(default, of_the_last=False)


def _named(config: PreTrainedConfig, name: str) -> list[str]:
    own = config.attribute_map.get(name, name)
    return [own] if _has(config, own) else []


def _tiny(default: PreTrainedConfig, dropout: float) -> dict[str, Any]:
    """What to change in `default`, and in the configurations inside it."""
    known = {
        **FAMILIES.get(default.model_type, {}),
        **SET_BY_CHECKPOINTS.get(default.model_type, {}),
    }
    inside = {name: getattr(default, name) for name in default.sub_configs if name not in known}
    # Not all are there by default.
    parts = {
        name: _part(part, dropout)
        for name, part in inside.items()
        if isinstance(part, PreTrainedConfig)
    }
    one_kind: dict[str, Any] = (
        {"per_layer_config": {}} if "per_layer_config" in default.to_dict() else {}
    )
    return {
        **_sizes(default),
        **dict.fromkeys(_rates(default), dropout),
        **one_kind,
        **parts,
        **known,
    }


def _part(part: PreTrainedConfig, dropout: float) -> PreTrainedConfig:
    tiny = {**part.to_dict(), **_layers(part), **_tiny(part, dropout)}
    rope = getattr(part, "rope_parameters", None)
    if isinstance(rope, dict) and "rope_type" in rope:
        tiny["rope_parameters"] = {**rope, "mrope_section": _sections(rope)}
    return _accepted(part, lambda conceded: {**tiny, **conceded})


def _sections(rope: dict[str, Any]) -> list[int]:
    """Of a rotary embedding: frequencies for time, height and width.  A model without these does not look at them."""
    features = SIZES["hidden_size"] // SIZES["num_attention_heads"]
    frequencies = int(features * rope.get("partial_rotary_factor", 1.0)) // 2
    third = frequencies // 3
    return [frequencies - 2 * third, third, third]


def _layers(default: PreTrainedConfig, *, of_the_last: bool = True) -> dict[str, Any]:
    """Lists that have an entry for each layer, those of the last layers or the first."""
    layers, kept = getattr(default, "num_hidden_layers", None), SIZES["num_hidden_layers"]
    place = slice(-kept, None) if of_the_last else slice(kept)
    lists = {name: value for name, value in default.to_dict().items() if isinstance(value, list)}
    return {name: value[place] for name, value in lists.items() if len(value) == layers}


def _sizes(default: PreTrainedConfig) -> dict[str, Any]:
    in_stages = _has(default, "depths")
    common = {
        name: size for name, size in SIZES.items() if not (in_stages and name.startswith("num_"))
    }
    if _has(default, "kv_lora_rank"):  # latent attention: keys are made for every head
        common["num_key_value_heads"] = SIZES["num_attention_heads"]
    mapped = {default.attribute_map[name] for name in common if name in default.attribute_map}
    wanted = {
        **_shrunk(default),
        **MORE_SIZES,
        **_normalized(default),
        **common,
        **(STAGES if in_stages else {}),
    }
    told = default.to_dict()
    return {
        n: _shaped(told.get(n), size)
        for n, size in wanted.items()
        if _has(default, n) and n not in mapped
    }


def _shaped(value: Any, size: Any) -> Any:
    """As many of `size` as there are values, where the configuration has a list."""
    several = isinstance(value, list | tuple) and not isinstance(size, list)
    return [size] * len(value) if several else size


def _normalized(default: PreTrainedConfig) -> dict[str, Any]:
    """Sizes by the names that optimum knows in this model type."""
    if NormalizedConfigManager is None or default.model_type not in NormalizedConfigManager._conf:
        return {}
    normal = NormalizedConfigManager.get_normalized_config_class(default.model_type)(default)
    names = {
        getattr(normal, told): SIZES[name]
        for told, name in NORMALIZED.items()
        if hasattr(type(normal), told)
    }
    values = default.to_dict()
    return {name: size for name, size in names.items() if isinstance(values.get(name), int)}


def _shrunk(default: PreTrainedConfig) -> dict[str, Any]:
    large = [
        n
        for n, v in default.to_dict().items()
        if isinstance(v, int) and not isinstance(v, bool) and v > LARGE
    ]
    found = {
        name: [size for ending, size in SHRUNK.items() if re.search(ending, name)] for name in large
    }
    return {name: sizes[-1] for name, sizes in found.items() if sizes}


def _has(config: PreTrainedConfig, name: str) -> bool:
    # XLNet has a property for the longest sequence, which refuses to be set: it has none.
    if isinstance(getattr(type(config), name, None), property):
        return False
    try:
        return hasattr(config, name)
    except Exception:  # what Gemma 4 has for each layer is there, and cannot be read for all
        return True


def _rates(default: PreTrainedConfig) -> list[str]:
    return [
        name
        for name, value in default.to_dict().items()
        if "drop" in name and isinstance(value, float)
    ]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of shape (rows, length) with what a model is trained on, and which of them are real."""

    input_ids: Tensor
    attention_mask: Tensor | None  # None: nothing is padded
    labels: Tensor
    real: Tensor  # bool

    def inputs(self) -> dict[str, Tensor]:
        """The arguments of a model's forward; no mask where nothing is padded."""
        given = {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "labels": self.labels,
        }
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
