"""Sizes of single families of models, by model type: without them no tiny model can be built.

Lists have an entry for each stage.  Values that must divide or add up to others in a family do so.
"""

from __future__ import annotations

from typing import Any

from patchgen.facts.vision_families import VISION

_TOWER = {"hidden_size": 128}  # BridgeTower splits it into heads of 64

_SERIES = {
    "num_input_channels": 2,
    "context_length": 24,
    "patch_length": 4,
    "patch_stride": 4,
    "prediction_length": 5,
}

# One value for each step; the model also looks at values of earlier steps.
_LAGGED = {
    "context_length": 11,
    "prediction_length": 6,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 2,
}

_FORECAST = {"context_length": 48, "patch_length": 4, "horizon_length": 8}

FAMILIES: dict[str, dict[str, Any]] = {
    **VISION,
    "audio-spectrogram-transformer": {
        "max_length": 24,
        "num_mel_bins": 16,
        "patch_size": 4,
        "frequency_stride": 4,
        "time_stride": 4,
    },
    "autoformer": {**_LAGGED, "label_length": 4, "moving_average": 3},
    # With rows too short for its blocks, BigBird replaces its attentions and draws new weights.
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "informer": _LAGGED,
    "time_series_transformer": _LAGGED,
    "timesfm": _FORECAST,
    "timesfm2_5": {**_FORECAST, "output_quantile_len": 16},
    "llama4_vision_model": {"intermediate_size": 128},  # of four patches
    "encodec": {"num_filters": 4, "codebook_size": 32, "codebook_dim": 32},
    "speecht5": {
        "conv_dim": [16] * 7,
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 4,
    },
    "tvp": {
        "num_frames": 3,
        "max_img_size": 64,
        "visual_prompt_size": 8,
        "max_grid_col_position_embeddings": 16,
        "max_grid_row_position_embeddings": 16,
    },
    "bridgetower": _TOWER,
    "bridgetower_text_model": _TOWER,
    "bridgetower_vision_model": _TOWER,
    "bros": {"hidden_size": 64},  # an eighth of a quarter of which is a pair
    "codegen": {"rotary_dim": 4},
    "fastspeech2_conformer": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_linear_units": 48,
        "decoder_linear_units": 48,
        "num_mel_bins": 8,
        "speech_decoder_postnet_units": 16,
        "duration_predictor_channels": 16,
        "energy_predictor_channels": 16,
        "pitch_predictor_channels": 16,
    },
    "lilt": {"hidden_size": 48},  # six coordinates, and heads a quarter as wide for the layout
    "layoutlmv3": {
        "coordinate_size": 6,
        "shape_size": 4,
        "input_size": 12,
        "max_2d_position_embeddings": 64,
    },
    "lxmert": {"l_layers": 2, "x_layers": 2, "r_layers": 2, "visual_feat_dim": 24},
    "mobilebert": {
        "normalization_type": "layer_norm"
    },  # or what is drawn grows from layer to layer
    "patchtsmixer": {**_SERIES, "self_attn": True},
    "patchtst": _SERIES,
    "perceiver": {
        "d_latents": 32,
        "max_position_embeddings": 13,  # of its answer, whatever the length of the text
        "num_latents": 8,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "qk_channels": 32,
        "v_channels": 32,
    },
    "phi4_multimodal_audio": {"nemo_conv_channels": 16},
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh", "local"],
        "attention_head_size": 8,
    },
    "sew-d": {
        "conv_dim": [16] * 13,
        "squeeze_factor": 2,
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 4,
    },
    "speech_to_text": {"conv_channels": 24, "input_feat_per_channel": 16},
    "timesformer": {"num_frames": 3, "image_size": 12, "patch_size": 4},
    "wavlm": {
        "conv_dim": [16] * 7,
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 4,
    },
    "squeezebert": {"embedding_size": 32},
}
