from transformers.models.llama.modeling_llama import *


def forward(self, x):
    return rotate_half(x)


LlamaMLP.forward = forward

# says:
# patch.py:1:1: PG810 reads LlamaMLP, which `*` does not give here
#     hint: name the release that the patch was written for: --release X
