from transformers.models.llama import modeling_llama

SHIFTS = {"a": 0.25}
SHIFTS.update(a=0.125)


def forward(self, x):
    return self.down_proj(self.up_proj(x)) + SHIFTS["a"]


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:4:1: PG810 may change SHIFTS, which the patch reads
#     hint: make it a constant
