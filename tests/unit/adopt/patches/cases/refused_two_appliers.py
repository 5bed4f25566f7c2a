from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


def other(self, x):
    return x * 2


def fast():
    modeling_llama.LlamaMLP.forward = forward


def slow():
    modeling_llama.LlamaMLP.forward = other

# says:
# patch.py:16:1: PG810 may apply the patch, and so may fast
#     hint: say which: --apply 'slow()'
