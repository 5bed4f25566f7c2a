"""ALBERT with activation checkpointing, which transformers does not have for it.

Its layers share their weights, so nearly all memory of training is activations.  A layer is checkpointed at each of
its uses; with one layer for all, `every` has nothing to choose from and is refused.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.albert import modeling_albert as albert

from patchgen.parts.checkpoint import Checkpointing


class AlbertLayer(albert.AlbertLayer, GradientCheckpointingLayer):
    pass


class AlbertPreTrainedModel(Checkpointing, albert.AlbertPreTrainedModel):
    pass
