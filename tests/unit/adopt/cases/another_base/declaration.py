"""A fork."""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.toy import modeling_toy as toy


class ToyLayer(toy.ToyLayer, GradientCheckpointingLayer):
    pass
