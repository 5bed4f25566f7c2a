from transformers.models.llama import modeling_llama


def patch(k):
    def forward(self, x):
        return x * k

    modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:8:39: PG810 LlamaMLP.forward depends on a definition inside a function
#     hint: say how it is applied: --apply 'patch(k=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
