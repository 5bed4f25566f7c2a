from transformers.models.llama.modeling_llama import LlamaMLP


def forward(self, x):
    return self._old(x) * 2


LlamaMLP._old = LlamaMLP.forward
LlamaMLP.forward = forward

# says:
# patch.py:8:1: PG810 takes LlamaMLP.forward for another
#     hint: write the class or function anew, without what it was before the patch
