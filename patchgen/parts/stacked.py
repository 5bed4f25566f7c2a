"""Checkpoints of the parent for a model whose weights are laid out in another way.

    class DbrxPreTrainedModel(ConvertedCheckpoints, dbrx.DbrxPreTrainedModel):
        _weight_conversions = [WeightConverter(...), ...]

transformers undoes `_weight_conversions` when it saves a model, and asks a register for them when it loads one.  That
register goes by the names of classes and model types, for the whole process: what stands there would reach
transformers' own model, too.  A model whose conversions are attributes of its class brings them to its own loading.
"""

from copy import deepcopy
from typing import Any

from transformers.modeling_utils import PreTrainedModel


class ConvertedCheckpoints:
    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, files: Any, load_config: Any, *args: Any
    ) -> Any:
        # Of this class alone: what is registered by name would reach transformers' own model too.
        load_config.weight_mapping.extend(deepcopy(type(model)._weight_conversions))
        return PreTrainedModel._load_pretrained_model(model, state_dict, files, load_config, *args)
