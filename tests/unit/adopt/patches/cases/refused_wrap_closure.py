def apply():
    from transformers.models.llama import modeling_llama

    orig = modeling_llama.LlamaMLP.forward

    def forward(self, x):
        return orig(self, x) * 2

    modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:7:16: PG810 keeps what LlamaMLP.forward was before the patch
#     hint: write the class, with a method that calls `super()`
