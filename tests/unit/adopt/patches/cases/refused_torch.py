import torch
from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


torch.nn.functional.silu = torch.nn.functional.relu
modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:9:1: PG810 changes torch.nn.functional.silu, which is no part of a model of transformers
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
