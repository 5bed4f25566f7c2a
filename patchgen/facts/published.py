"""Configurations of published checkpoints at tiny sizes: settings that no default has.

They are listed by the model's folder in transformers.  Each makes a model compute something that
its tiny configuration does not, and is taken from the `config.json` of a well-known checkpoint:
DeBERTa-v3 attends by content and position, for example, which no default says.  Numbers are small
enough for a text of 13 tokens to meet both sides of each: a window, a bucket, a scaled frequency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Padding = Literal["full", "right", "left"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Changes of a tiny configuration, and the rows that they are run with."""

    name: str
    changes: Mapping[str, Any]
    rows: tuple[Padding, ...] = ("full", "left", "right")
    # As of a `Case`: 1 where the parent's closest computation sums in another order then.
    route: int = 0
    drawn: bool = False  # from changed lines: the model may refuse it


# Of four frequencies of the tiny rotary embedding one stays, one is between, two are scaled.
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
# Scales attention as well: by 0.1 ln(4) + 1.
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}

_HALF = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
_DEBERTA_V3 = {
    "relative_attention": True,
    "position_buckets": 6,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
_CROSS = {"is_decoder": True, "add_cross_attention": True}
_ROUTED = {"output_router_logits": True, "router_aux_loss_coef": 0.3}

PUBLISHED: Mapping[str, tuple[Setting, ...]] = {
    "albert": (Setting("groups of layers", {"num_hidden_groups": 2, "inner_group_num": 2}),),
    "bert": (
        Setting("a decoder", {"is_decoder": True}),
        Setting("a decoder behind an encoder", _CROSS),
        Setting("more types of tokens", {"type_vocab_size": 4}),
        Setting("relu", {"hidden_act": "relu"}),
        Setting("tanh gelu", {"hidden_act": "gelu_new"}),
    ),
    "bloom": (
        Setting("residual behind the norm", {"apply_residual_connection_post_layernorm": True}),
        Setting("five heads", {"n_head": 5, "hidden_size": 40}),  # no power of two: other slopes
    ),
    "dbrx": (),
    "deberta_v2": (
        Setting("v3", _DEBERTA_V3),
        Setting("v2-xlarge", {**_DEBERTA_V3, "conv_kernel_size": 3, "conv_act": "gelu"}),
        # Shorter than the text: the distance is clamped.
        Setting(
            "keys of its own",
            {"relative_attention": True, "max_relative_positions": 4, "pos_att_type": "c2p|p2c"},
        ),
        Setting(
            "c2p alone",
            {**_DEBERTA_V3, "pos_att_type": "c2p", "share_att_key": False, "norm_rel_ebd": "none"},
        ),
        Setting("p2c alone", {**_DEBERTA_V3, "pos_att_type": "p2c", "share_att_key": False}),
        Setting("types of tokens", {"type_vocab_size": 2}),
    ),
    "gemma2": (
        Setting("caps that count", {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0}),
        Setting("no caps", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
        Setting("another scale", {"query_pre_attn_scalar": 12}),
        Setting("a window", {"sliding_window": 5}),
        Setting("heads of their own size", {"head_dim": 16, "attention_bias": True}),
    ),
    "gpt2": (
        Setting("scaled by layer", {"scale_attn_by_inverse_layer_idx": True}),
        Setting("not scaled", {"scale_attn_weights": False}),
        Setting(
            "upcast", {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True}
        ),
        Setting("gelu", {"activation_function": "gelu"}),
        Setting("gelu by its formula", {"activation_function": "gelu_python"}),
        Setting("relu", {"activation_function": "relu"}),
        Setting("behind an encoder", {"add_cross_attention": True}),
        Setting("wider", {"n_inner": 40, "tie_word_embeddings": False}),
    ),
    "jetmoe": (Setting("router losses", {"output_router_logits": True, "aux_loss_coef": 0.3}),),
    "llama": (
        Setting("3.1", {"rope_parameters": _LLAMA3, "num_key_value_heads": 1}),
        Setting("3.2", {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}),
        Setting("2", {"num_key_value_heads": 4}),
        Setting("scaled rotary", {"rope_parameters": YARN}),
        Setting("heads of their own size", {"head_dim": 16}),
        Setting("biases", {"attention_bias": True, "mlp_bias": True}),
    ),
    "llama4": (
        Setting("chunks", {"attention_chunk_size": 5}),
        Setting(
            "without rotary", {"no_rope_layers": [0, 1, 0], "use_qk_norm": False, "floor_scale": 4}
        ),
        Setting("router losses", {"output_router_logits": True}),
        Setting("some layers dense", {"moe_layers": [1]}),
    ),
    "longcat_flash": (Setting("biases", {"attention_bias": True, "routed_scaling_factor": 2.5}),),
    "megatron_bert": (
        Setting("a decoder", {"is_decoder": True}),
        Setting("a decoder behind an encoder", _CROSS),
        Setting("more types of tokens", {"type_vocab_size": 4}),
    ),
    "mistral": (
        Setting("a window", {"sliding_window": 5}),
        Setting("Nemo", {"sliding_window": None, "head_dim": 16}),
        Setting("a window as long as the text", {"sliding_window": 13}),
    ),
    "mixtral": (
        Setting("a window", {"sliding_window": 5}),
        Setting("a window as long as the text", {"sliding_window": 13}),
        Setting("router losses", _ROUTED),
        Setting("jitter", {"router_jitter_noise": 0.2}),
        Setting(
            "scaled rotary", {"rope_parameters": YARN, "head_dim": 16, "tie_word_embeddings": True}
        ),
    ),
    "mpnet": (Setting("relu", {"hidden_act": "relu"}),),
    "openai": (Setting("relu", {"afn": "relu"}),),
    "qwen3": (
        Setting("0.6B", {"tie_word_embeddings": True, "head_dim": 16}),
        Setting(
            "a window", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
        ),
        Setting("biases", {"attention_bias": True}),
        Setting("scaled rotary", {"rope_parameters": YARN}),
    ),
    "qwen3_moe": (
        Setting("30B-A3B", {"norm_topk_prob": True, "head_dim": 16}),
        Setting("router losses", _ROUTED),
        Setting("some layers dense", {"decoder_sparse_step": 2, "mlp_only_layers": [2]}),
        Setting("a window", {"use_sliding_window": True, "sliding_window": 5}),
        Setting("biases", {"attention_bias": True}),
    ),
    "roberta": (
        Setting("of checkpoints", {"type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0}),
        Setting("a decoder", {"is_decoder": True}),
        Setting("a decoder behind an encoder", _CROSS),
        Setting("relu", {"hidden_act": "relu"}),
    ),
    "step3p7": (
        Setting(
            "part of a head rotated", {"text_config.rope_parameters": {"full_attention": _HALF}}
        ),
        Setting("scaled rotary", {"text_config.rope_parameters": {"full_attention": _LLAMA3}}),
        Setting("a window", {"sliding_window": 5}),
        Setting(
            "limits", {"swiglu_limits": [0.5, 0.4, 0.6], "swiglu_limits_shared": [0.3, 0.8, 0.7]}
        ),
    ),
    "switch_transformers": (
        Setting("router losses", {"output_router_logits": True, "router_bias": True}),
        Setting("few places", {"expert_capacity": 4}),
        Setting("jitter", {"router_jitter_noise": 0.2}),
    ),
    "t5": (
        Setting("v1.1", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        Setting(
            "fewer buckets",
            {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 7},
        ),
        Setting("fewer layers to decode", {"num_decoder_layers": 2}),
    ),
    "vit": (
        Setting("no biases", {"qkv_bias": False}),
        Setting("relu", {"hidden_act": "relu", "pooler_act": "relu"}),
    ),
    "xglm": (
        Setting("embeddings as they are", {"scale_embedding": False}),
        Setting("relu", {"activation_function": "relu"}),
        Setting("behind an encoder", {"add_cross_attention": True}),
    ),
    "xlnet": (
        Setting("one direction", {"attn_type": "uni", "same_length": True}),
        Setting("clamped", {"clamp_len": 4, "same_length": True}),
        Setting("both directions of data", {"bi_data": True}),
    ),
}
