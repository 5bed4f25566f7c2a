"""mpnet with checkpoint, written by `patchgen new`.

Activation checkpointing: `model.activation_checkpointing_enable()`.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.mpnet import modeling_mpnet as mpnet


class MPNetPreTrainedModel(mpnet.MPNetPreTrainedModel):
    supports_gradient_checkpointing = True


class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer):
    pass
