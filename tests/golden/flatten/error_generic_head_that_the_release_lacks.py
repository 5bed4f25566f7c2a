# reason: a fork of a newer release, tried with an older one, has heads that are not there
# --- parent transformers/modeling_layers.py
class GradientCheckpointingLayer: ...
# --- parent toy/modeling_toy.py
class ToyPreTrainedModel:
    base_model_prefix = "model"


class ToyModel(ToyPreTrainedModel):
    def forward(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from transformers.modeling_layers import GenericForQuestionAnswering

from . import modeling_toy as toy


class ToyPreTrainedModel(toy.ToyPreTrainedModel):
    pass


class ToyModel(toy.ToyModel):
    def forward(self, x):
        return x * 2


class ToyForQuestionAnswering(GenericForQuestionAnswering, ToyPreTrainedModel):
    pass
# --- error
toy/modular_toy_fast.py:1:42: PG411 transformers.modeling_layers has no GenericForQuestionAnswering
