"""ALBERT with activation checkpointing, which transformers does not have for it.

    model.activation_checkpointing_enable()

Its layers share their weights, so activations take nearly all the memory of training.  The one layer is run again at
each of its uses; `every_n_layers` has nothing to choose from.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.albert import modeling_albert as albert


class AlbertLayer(albert.AlbertLayer, GradientCheckpointingLayer):
    pass


class AlbertPreTrainedModel(albert.AlbertPreTrainedModel):
    supports_gradient_checkpointing = True
