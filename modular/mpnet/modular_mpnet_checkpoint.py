"""MPNet with activation checkpointing, which transformers does not have for it.

    model.activation_checkpointing_enable()

For those who train sentence embeddings with batches that do not fit: contrastive losses want them large.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.mpnet import modeling_mpnet as mpnet


class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer):
    pass


class MPNetPreTrainedModel(mpnet.MPNetPreTrainedModel):
    supports_gradient_checkpointing = True
