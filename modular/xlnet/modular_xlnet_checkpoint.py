"""xlnet with checkpoint, written by `patchgen new`.

Activation checkpointing: `model.activation_checkpointing_enable()`.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.xlnet import modeling_xlnet as xlnet


class XLNetLayer(xlnet.XLNetLayer, GradientCheckpointingLayer):
    pass


class XLNetPreTrainedModel(xlnet.XLNetPreTrainedModel):
    supports_gradient_checkpointing = True
