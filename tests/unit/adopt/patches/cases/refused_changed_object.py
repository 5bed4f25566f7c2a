from mine import Frequencies
from transformers.models.llama import modeling_llama

FREQUENCIES = Frequencies()
FREQUENCIES.build(4096)


def forward(self, x):
    return FREQUENCIES(x)


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:5:1: PG810 may change FREQUENCIES, which the patch reads
#     hint: make it a constant
