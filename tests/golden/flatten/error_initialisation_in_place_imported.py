# search: installed
# --- modular modular_gpt2_x.py
import torch
from torch import nn
from torch.nn.init import normal_

from transformers.models.gpt2 import modeling_gpt2 as gpt2


def fill(module):
    module.weight.fill_(1.0)


class GPT2PreTrainedModel(gpt2.GPT2PreTrainedModel):
    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, nn.Embedding):
            normal_(module.weight)
# --- error
modular_gpt2_x.py:17:13: PG414 `normal_(module.weight)` writes over weights that were loaded
    hint: initialise the parameter itself by a function of torch.nn.init, as in `nn.init.normal_(module.weight)`, or ask for `getattr(module.weight, "_is_hf_initialized", False)` first
