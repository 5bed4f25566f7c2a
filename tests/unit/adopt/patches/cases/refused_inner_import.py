from transformers.models.llama import modeling_llama


def forward(self, x):
    from transformers.models.llama.modeling_llama import rotate_half

    return rotate_half(x)


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:5:5: PG810 imports from the patched module while the model runs
#     hint: change that line
