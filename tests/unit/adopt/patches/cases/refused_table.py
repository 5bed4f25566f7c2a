from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama import modeling_llama


def mine(module, q, k, v, mask, **kwargs):
    return q, None


def forward(self, x):
    return x


ALL_ATTENTION_FUNCTIONS["mine"] = mine
modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:13:1: PG810 `ALL_ATTENTION_FUNCTIONS['mine']` stands where this file does not say what becomes of it
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
