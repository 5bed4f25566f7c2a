"""Sizes of single families of models that see images or video: see `families`."""

from __future__ import annotations

from typing import Any

# Four stages of a pyramid, each half as high and wide as the one before.
_PYRAMID: dict[str, Any] = {
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 16, 24, 32],
    "num_attention_heads": [1, 2, 3, 4],
    "image_size": 64,
}

# Detectors over three levels of a backbone with four stages, of which they must know the widths.
_WIDTHS = [8, 16, 24, 32]

_DETECTOR: dict[str, Any] = {
    "d_model": 32,
    "encoder_hidden_dim": 32,
    "encoder_in_channels": _WIDTHS[1:],
    "decoder_in_channels": [32, 32, 32],
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "decoder_layers": 2,
    "num_queries": 7,
    "num_denoising": 0,
    "anchor_image_size": None,
}

_RESNET: dict[str, Any] = {"hidden_sizes": _WIDTHS, "depths": [1, 1, 1, 1], "embedding_size": 8}

_SWIN: dict[str, Any] = {
    "depths": [1, 1, 1, 1],
    "num_heads": [1, 2, 4, 8],
    "embed_dim": 8,
    "image_size": 64,
}

# In place of one from timm; ResNet's own features vanish with the weights that are drawn.
_BACKBONE: dict[str, Any] = {
    "model_type": "swin",
    **_SWIN,
    "window_size": 4,
    "out_features": ["stage3"],
}

# Four stages of Sam2's Hiera, whose features a pyramid takes the other way round.
_HIERA: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 1,
    "image_size": [64, 64],
    "window_positional_embedding_background_size": [4, 4],
    "blocks_per_stage": [1, 1, 2, 1],
    "embed_dim_per_stage": [16, 32, 64, 128],
    "num_attention_heads_per_stage": [1, 2, 4, 8],
    "window_size_per_stage": [4, 4, 2, 2],
    "global_attention_blocks": [3],
}

_SAM: dict[str, Any] = {
    "hidden_size": 32,
    "image_size": 64,
    "patch_size": 16,
    "mask_input_channels": 8,
}

_WINDOWS: dict[str, Any] = {
    "image_size": 24,
    "patch_size": 4,
    "window_size": 3,
    "global_attn_indexes": [2],
    "output_channels": 256,  # which what reads them is made for
}

_SAM_MASKS: dict[str, Any] = {"iou_head_hidden_dim": 24}

_SAM_PATCHES: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 16,
    "window_size": 2,
    "global_attn_indexes": [2],
    "output_channels": 32,
    "num_pos_feats": 16,
}

_SAM_VISION: dict[str, Any] = {
    "backbone_channel_list": [128, 64, 32, 16],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    "fpn_hidden_size": 32,
}

_SAM_VIDEO: dict[str, Any] = {
    "image_size": 64,
    "memory_attention_hidden_size": 32,
    "memory_attention_num_layers": 2,
    "memory_attention_rope_feat_sizes": [4, 4],
    "memory_encoder_hidden_size": 32,
    "memory_encoder_output_channels": 8,
    "mask_downsampler_embed_dim": 32,
    "memory_fuser_embed_dim": 32,
}

VISION: dict[str, dict[str, Any]] = {
    # A network that timm has for tests.
    "timm_backbone": {"backbone": "test_resnet.r160_in1k"},
    "timm_wrapper": {"architecture": "test_resnet.r160_in1k"},
    "depth_anything": {
        "backbone_config": {
            "model_type": "dinov2",
            "image_size": 56,
            "patch_size": 14,
            "num_hidden_layers": 4,
            "hidden_size": 32,
            "num_attention_heads": 4,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
            "reshape_hidden_states": False,
        },
        "patch_size": 14,
        "reassemble_hidden_size": 32,
        "neck_hidden_sizes": _WIDTHS,
        "fusion_hidden_size": 16,
        "head_hidden_size": 8,
    },
    "deimv2": {**_DETECTOR, "head_dim": 8, "hidden_expansion": 0.5},
    "edgetam_prompt_encoder": {**_SAM, "image_size": 96, "patch_size": 8},
    "edgetam_mask_decoder": _SAM_MASKS,
    "edgetam_vision_model": {
        "backbone_channel_list": [192, 48, 32, 32],
        "backbone_feature_sizes": [[48, 48], [24, 24], [12, 12]],
        "fpn_hidden_size": 32,
    },
    "eomt": {"num_queries": 7, "num_blocks": 2, "image_size": 64, "patch_size": 16},
    "eomt_dinov3": {"num_queries": 7, "num_blocks": 2, "image_size": 64, "patch_size": 16},
    "got_ocr2": {"image_token_index": 96, "image_seq_length": 1},
    "got_ocr2_vision": {
        "image_size": 32,
        "patch_size": 8,
        "window_size": 3,
        "global_attn_indexes": [2],
    },
    "lightglue": {"descriptor_dim": 32, "depth_confidence": -1.0, "width_confidence": -1.0},
    "omdet-turbo": {
        "text_projection_in_dim": 32,
        "text_projection_out_dim": 32,
        "task_encoder_hidden_dim": 40,
        "class_embed_dim": 32,
        "num_queries": 7,
        "d_model": 48,
        "encoder_hidden_dim": 48,
        "vision_features_channels": [48, 48, 48],
        "backbone_config": {
            "model_type": "swin",
            **_SWIN,
            "window_size": 4,
            "out_indices": [2, 3, 4],
        },
        "apply_layernorm_after_vision_backbone": False,
        "encoder_in_channels": [16, 32, 64],
        "encoder_attention_heads": 4,
        "encoder_dim_feedforward": 48,
        "decoder_hidden_dim": 48,
        "decoder_num_heads": 4,
        "decoder_num_layers": 2,
        "decoder_dim_feedforward": 40,
        "image_size": 64,
    },
    # With widths that differ it has projections that are loaded from no checkpoint.
    "oneformer": {
        "hidden_dim": 32,
        "conv_dim": 32,
        "mask_dim": 32,
        "task_seq_len": 13,
        "num_queries": 7,
    },
    "videomt": {"num_queries": 7, "num_blocks": 2, "image_size": 64, "patch_size": 16},
    "dab-detr": {"num_queries": 7, "backbone_config": _BACKBONE},
    "table-transformer": {"num_queries": 7, "backbone_config": _BACKBONE},
    **dict.fromkeys(
        ("sam_prompt_encoder", "sam_hq_prompt_encoder"), {**_SAM, "image_embedding_size": 4}
    ),
    **dict.fromkeys(("sam_mask_decoder", "sam_hq_mask_decoder"), _SAM_MASKS),
    **dict.fromkeys(("sam_vision_model", "sam_hq_vision_model"), _SAM_PATCHES),
    "vivit": {"tubelet_size": [2, 4, 4], "num_frames": 4, "image_size": 12},
    "sam2_hiera_det_model": _HIERA,
    "sam2_prompt_encoder": _SAM,
    "sam2_mask_decoder": _SAM_MASKS,
    "sam2_vision_model": _SAM_VISION,
    "sam2_video": _SAM_VIDEO,
    "sam2_video_prompt_encoder": _SAM,
    "sam2_video_mask_decoder": _SAM_MASKS,
    "superglue": {
        "hidden_size": 32,
        "keypoint_encoder_sizes": [16, 24],
        "gnn_layers_types": ["self", "cross", "self"],
        "sinkhorn_iterations": 3,
    },
    "superpoint": {
        "encoder_hidden_sizes": [8, 8, 16, 16],
        "decoder_hidden_size": 24,
        "descriptor_decoder_dim": 32,
        "keypoint_threshold": 0.0,
        "nms_radius": 2,
        "border_removal_distance": 2,
    },
    "zoedepth": {
        "backbone_config": {
            "model_type": "beit",
            "image_size": 64,
            "patch_size": 16,
            "num_hidden_layers": 4,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_attention_heads": 4,
            "use_relative_position_bias": True,
            "reshape_hidden_states": False,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        "neck_hidden_sizes": _WIDTHS,
        "fusion_hidden_size": 16,
        "bottleneck_features": 16,
        "bin_embedding_dim": 16,
        "num_relative_features": 8,
        "num_attractors": [4, 3, 2, 1],
        # Between two ranges of depth a transformer over patches decides.
        "bin_configurations": [
            {"name": "near", "n_bins": 8, "min_depth": 0.001, "max_depth": 10.0},
            {"name": "far", "n_bins": 8, "min_depth": 0.001, "max_depth": 80.0},
        ],
        "num_patch_transformer_layers": 4,  # the forward counts on them
        "patch_transformer_hidden_size": 128,  # which the classifier behind it is made for
        "patch_transformer_intermediate_size": 48,
        "patch_transformer_num_attention_heads": 4,
    },
    "cvt": {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 4], "depth": [1, 2, 3]},
    "d_fine": {**_DETECTOR, "head_dim": 8, "hidden_expansion": 0.5},
    "grounding-dino": {**_DETECTOR, "max_text_len": 16},
    "hgnet_v2": {
        **_RESNET,
        "stem_channels": [3, 8, 8],
        "stage_in_channels": [8, 8, 16, 24],
        "stage_mid_channels": [8, 8, 8, 8],
        "stage_out_channels": _WIDTHS,
        "stage_num_blocks": [1, 1, 1, 1],
        "stage_numb_of_layers": [2, 2, 2, 2],
    },
    "mask2former": {
        "feature_size": 32,
        "mask_feature_size": 32,
        "hidden_dim": 32,
        "encoder_feedforward_dim": 48,
        "dim_feedforward": 40,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "num_queries": 7,
    },
    "mm-grounding-dino": {**_DETECTOR, "max_text_len": 16},
    "pp_doclayout_v2": _DETECTOR,
    "pp_doclayout_v3": {
        **_DETECTOR,
        "mask_feature_channels": [16, 16],
        "x4_feat_dim": 8,
        "num_prototypes": 8,
    },
    "pp_doclayout_v4": {
        **_DETECTOR,
        "mask_feature_channels": [16, 16],
        "x4_feat_dim": 8,
        "num_prototypes": 8,
    },
    "resnet": _RESNET,
    "rt_detr": _DETECTOR,
    "rt_detr_resnet": _RESNET,
    "rt_detr_v2": _DETECTOR,
    "swin": _SWIN,
    "florence_vision": {
        "depths": [1, 1, 1, 1],
        "embed_dim": _WIDTHS,
        "num_heads": [1, 2, 3, 4],
        "num_groups": [1, 2, 3, 4],
        "patch_size": [7, 3, 3, 3],
        "window_size": 4,
    },
    "glpn": {**_PYRAMID, "decoder_hidden_size": 16},
    "hiera": {
        "image_size": [64, 64],
        "patch_size": [7, 7],
        "depths": [1, 1, 1, 1],
        "num_heads": [1, 2, 4, 8],
        "embed_dim": 8,
    },
    "levit": {
        "hidden_sizes": [16, 32, 48],
        "num_attention_heads": [2, 4, 6],
        "depths": [2, 2, 2],
        "key_dim": [8, 8, 8],
        "image_size": 64,
        "patch_size": 16,
    },
    "mgp-str": {
        "image_size": [32, 64],
        "patch_size": 4,
        "max_token_length": 7,
        "num_character_labels": 11,
        "num_bpe_labels": 19,
        "num_wordpiece_labels": 23,
    },
    "mobilevit": {"image_size": 96},  # a window of its last stage has more than one patch
    "mobilevitv2": {"image_size": 96},
    "pp_formulanet_vision": {
        **_WINDOWS,
        "post_conv_mid_channels": 48,
        "post_conv_out_channels": 64,
    },
    "pvt": _PYRAMID,
    "pvt_v2": _PYRAMID,
    "sam3_vision_model": {
        "fpn_hidden_size": 32,
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    },
    "slanext_vision": _WINDOWS,
    "swin2sr": {"image_size": 16, "patch_size": 1, "depths": [2, 2], "num_heads": [2, 4]},
    "unlimited_ocr_sam_vision_model": {"downsample_channels": [48, 64]},
}
