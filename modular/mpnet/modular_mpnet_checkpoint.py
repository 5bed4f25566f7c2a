"""MPNet with activation checkpointing, which transformers does not have for it.

    model.gradient_checkpointing_enable()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

For those who train sentence embeddings with batches that do not fit: contrastive losses want them large.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.mpnet import modeling_mpnet as mpnet

from patchgen.parts.checkpoint import Checkpointing


class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer):
    pass


class MPNetPreTrainedModel(Checkpointing, mpnet.MPNetPreTrainedModel):
    pass
