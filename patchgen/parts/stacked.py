"""Checkpoints of the parent for a model whose weights have another layout.

    class DbrxPreTrainedModel(ConvertedCheckpoints, dbrx.DbrxPreTrainedModel):
        _weight_conversions = [WeightConverter(...), ...]

transformers undoes `_weight_conversions` when it saves a model, and asks a register for them when
it loads one.  The register goes by the names of classes and model types, for the whole process: a
conversion there would apply to transformers' own model too.  This mixin takes the conversions of
its own class when the model is loaded.
"""

from copy import deepcopy
from typing import Any

from transformers.modeling_utils import PreTrainedModel


class ConvertedCheckpoints:
    @staticmethod
    def _load_pretrained_model(model: Any, state: Any, files: Any, load: Any, *args: Any) -> Any:
        # For this class alone: a registered conversion would apply to transformers' own model too.
        load.weight_mapping.extend(deepcopy(type(model)._weight_conversions))
        return PreTrainedModel._load_pretrained_model(model, state, files, load, *args)
