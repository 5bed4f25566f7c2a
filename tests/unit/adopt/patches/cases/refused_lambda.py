from transformers.models.llama import modeling_llama

modeling_llama.LlamaMLP.forward = lambda self, x: x

# says:
# patch.py:3:35: PG810 LlamaMLP.forward depends on `lambda self, x: x`
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
