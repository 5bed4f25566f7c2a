from transformers.models.llama.modeling_llama import LlamaMLP


def forward(self, x):
    return self._old(x) * 2


LlamaMLP._old = LlamaMLP.forward
LlamaMLP.forward = forward

# says:
# patch.py:8:1: PG810 gives LlamaMLP._old a method of LlamaMLP
#     hint: write the class, with a method that calls `super()`
