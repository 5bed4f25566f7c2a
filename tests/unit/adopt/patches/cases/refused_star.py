from transformers.models.llama.modeling_llama import *


def forward(self, x):
    return rotate_half(x)


LlamaMLP.forward = forward

# says:
# patch.py:1:1: PG810 imports `*`
#     hint: name what it imports
