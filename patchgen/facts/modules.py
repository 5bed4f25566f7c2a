"""Where transformers keeps what patchgen looks up by name."""

from __future__ import annotations

MODELS = "transformers.models"
# Who imports a model has imported these: to import one again changes nothing.
LOADED = frozenset({"huggingface_hub", "numpy", "torch", "transformers"})
MODELING_UTILS = "transformers.modeling_utils"
CONFIGURATION = "transformers.configuration_utils"
# Its classes `GenericForSequenceClassification` and similar are heads of any model.
GENERIC_HEADS = "transformers.modeling_layers"
# The base of layers that can be checkpointed, in the same module.
CHECKPOINTED = "GradientCheckpointingLayer"
# The table of base models, by model type.
AUTO_MODELS = "transformers.models.auto.modeling_auto"
AUTO_MODELS_TABLE = "MODEL_MAPPING_NAMES"
# The attributes of a configuration that have the classes of its parts, by name of the part.
SUB_CONFIGS = ("sub_configs", "sub_configs_defaults")
# How names in checkpoints change, by model type or class.
CONVERSIONS = "transformers.conversion_mapping"
CONVERSIONS_ALIASES = "_MODEL_TO_CONVERSION_PATTERN"
CONVERSIONS_BUILDER = "_build_checkpoint_conversion_mapping"
# Functions that make masks from the configuration.
CAUSAL = frozenset(
    {"create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask"}
)
BIDIRECTIONAL = frozenset({"create_bidirectional_mask", "create_bidirectional_sliding_window_mask"})
# The argument and the output that is a model's cache, until transformers 5.23 and since 5.24.
CACHES = frozenset({"past_key_values", "cache"})
