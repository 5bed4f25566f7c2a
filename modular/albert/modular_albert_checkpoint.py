"""albert with checkpoint, written by `patchgen new`.

Activation checkpointing: `model.activation_checkpointing_enable()`.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.albert import modeling_albert as albert


class AlbertLayer(albert.AlbertLayer, GradientCheckpointingLayer):
    pass


class AlbertPreTrainedModel(albert.AlbertPreTrainedModel):
    supports_gradient_checkpointing = True
