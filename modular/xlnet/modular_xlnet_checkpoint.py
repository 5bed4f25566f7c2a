"""XLNet with activation checkpointing, which transformers does not have for it.

    model.activation_checkpointing_enable()

Memories (`mems`) are read in the recompute as they were in the forward pass, and written outside the layers.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.xlnet import modeling_xlnet as xlnet


class XLNetLayer(xlnet.XLNetLayer, GradientCheckpointingLayer):
    pass


class XLNetPreTrainedModel(xlnet.XLNetPreTrainedModel):
    supports_gradient_checkpointing = True
