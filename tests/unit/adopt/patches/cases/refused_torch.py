import torch
from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


torch.nn.functional.silu = torch.nn.functional.relu
modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:9:1: PG810 assigns to `torch.nn.functional.silu`, which is no class or module that the file imports
#     hint: if it is of one class: --apply 'LlamaAttention.silu = ...', with your class
