"""Sizes of tiny models, by the names that configurations give them."""

from __future__ import annotations

import re

# Names that transformers uses in every configuration, if need be through its `attribute_map`.
# No two sizes are equal, so that a transposed or swapped axis cannot fit.  Two query heads share a
# key head.  Features are multiples of eight, which grouped matmul requires in bfloat16.
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

# Other names for these sizes, in models without an `attribute_map`, and sizes of some models only.
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
    "mm_tokens_per_image": 4,  # of sixteen patches
    **dict.fromkeys(
        ("num_query_tokens", "resampler_n_latents", "latent_query_num"), 5
    ),  # features of an image
    "reassemble_hidden_size": SIZES["hidden_size"],
    "output_channels": SIZES["hidden_size"],  # of Sam's encoder: prompts are added to its output
    # Mixtures of experts: their defaults leave three layers without any.
    **dict.fromkeys(("moe_topk", "moe_top_k"), SIZES["num_experts_per_tok"]),
    **dict.fromkeys(("ffn_hidden_size", "expert_ffn_hidden_size", "share_expert_dim"), 40),
    "encoder_sparse_step": 2,
    "zero_expert_num": 2,
    # Latent attention.
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 24,
    "rotary_dim": 4,
    # Layers before the first mixture: by default more than the tiny model has.
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1),
    # Which layers see everything, look at images or have experts: some of three.
    **dict.fromkeys(("fullatt_block_indexes", "global_attn_indexes", "full_attn_idxs"), [1]),
    **dict.fromkeys(("cross_attention_layers", "look_ahead_layers"), [1]),
    **dict.fromkeys(("window_block_indexes", "look_backward_layers"), [0, 2]),
    **dict.fromkeys(("moe_layers", "deepstack_visual_indexes"), [1, 2]),
    # With three layers, no layer would be left to compute the keys that others share.
    "num_kv_shared_layers": 0,
    # What another model hands to the text model.
    **dict.fromkeys(
        ("out_hidden_size", "text_hidden_size", "audio_hidden_size"), SIZES["hidden_size"]
    ),
    # Codecs of sound: filters double from stage to stage.
    **dict.fromkeys(("num_filters", "n_filters"), 4),
    "upsample_groups": SIZES["hidden_size"],
    # State spaces: heads times head size is the expanded hidden size, twice `hidden_size`.
    **dict.fromkeys(("mamba_n_heads", "mamba_d_state"), 4),
    "mamba_d_head": 16,
    "mamba_n_groups": 2,
    "mamba_d_ssm": 64,
}
# Where experts come in groups: three of two, of which a token chooses among two groups.
GROUPED = {"n_group": 3, "topk_group": 2}
EXPERTS_IN_GROUPS = 6
# Names of optimum, and the key of `SIZES` that each stands for.
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
# For names in none of the tables: a value above `LARGE` becomes the size that the name's ending
# suggests.
LARGE = 256
SHRUNK = {
    r"vocab": SIZES["vocab_size"],
    r"(hidden|emb\w*|projection)_(size|dim)$|^d_\w+$|_dim$": SIZES["hidden_size"],
    r"(intermediate|ffn|mlp|ff)\w*_(size|dim)$": SIZES["intermediate_size"],
}
# For models whose layers come in stages, such as Swin; these replace the sizes above.
STAGES = {"image_size": 64, "patch_size": 2, "window_size": 4}
# Where a stage has twice the width of the one before, and twice its heads.
FIRST_WIDTH, FIRST_HEADS = 8, 1
# Lists with a width for each stage and the like, and the widest that is left; lists of blocks.
WIDTHS = re.compile(r"(hidden_sizes?|dims?|channels|channel_size|channel_list)$")
WIDEST = 48
# Lists of layers whose states are read.
PLACES = re.compile(
    r"(out_indices|state_indices|extract_layers|target_layers|feature_layer|hook_ids)$"
)
DEPTHS = re.compile(r"(depths?|num_blocks|block_repeats)$")
