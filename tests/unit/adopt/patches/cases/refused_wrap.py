from transformers.models.llama import modeling_llama

_orig = modeling_llama.LlamaMLP.forward


def forward(self, x):
    return _orig(self, x) * 2


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:7:12: PG810 keeps what LlamaMLP.forward was before the patch
#     hint: write the class or function anew, without what it was before the patch
