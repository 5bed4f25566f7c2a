# reason: what patchgen itself writes into a model is no change
# --- parent toy/modeling_toy.py
from transformers.modeling_utils import PreTrainedModel


class ToyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "toy"

    def _init_weights(self, module):
        super()._init_weights(module)


class ToyModel(ToyPreTrainedModel):
    def forward(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyModel(toy.ToyModel):
    def forward(self, x):
        return super().forward(x)
# --- error
toy/modular_toy_fast.py:4:1: PG408 the generated code equals its parent's
    hint: declare what the variant changes, or delete the modular file
