from torch.nn.functional import relu
from transformers.models.llama.modeling_llama import *


def forward(self, x):
    return relu(x)


LlamaForCausalLM.forward = forward

# says:
# patch.py:2:1: PG810 imports `*`
#     hint: name what it imports
