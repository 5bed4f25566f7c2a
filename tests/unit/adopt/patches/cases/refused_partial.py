from functools import partial
from transformers.models.llama import modeling_llama


def forward(self, x, k):
    return x * k


modeling_llama.LlamaMLP.forward = partial(forward, k=2)

# says:
# patch.py:9:35: PG810 LlamaMLP.forward depends on `partial(forward, k=2)`
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
