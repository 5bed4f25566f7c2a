def apply():
    from transformers.models.llama import modeling_llama

    orig = modeling_llama.LlamaMLP.forward

    def forward(self, x):
        return orig(self, x) * 2

    modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:9:39: PG810 LlamaMLP.forward depends on a definition inside a function
#     hint: say how it is applied: --apply 'apply()'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
