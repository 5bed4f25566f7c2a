"""XLNet with activation checkpointing, which transformers does not have for it.

Memories (`mems`) are read in the recompute as they were in the forward pass, and written outside the layers.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.xlnet import modeling_xlnet as xlnet

from patchgen.parts.checkpoint import Checkpointing


class XLNetLayer(xlnet.XLNetLayer, GradientCheckpointingLayer):
    pass


class XLNetPreTrainedModel(Checkpointing, xlnet.XLNetPreTrainedModel):
    pass
