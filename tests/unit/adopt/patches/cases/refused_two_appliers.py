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
# patch.py:17:5: PG810 LlamaMLP.forward is assigned by another function, too
#     hint: say what it assigns: --apply 'LlamaMLP.forward = ...'
