from transformers.models.llama import modeling_llama

SHIFTS = {"a": 0.25}
SHIFTS.update(a=0.125)


def forward(self, x):
    return self.down_proj(self.up_proj(x)) + SHIFTS["a"]


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:4:1: PG810 `SHIFTS` stands where this file does not say what becomes of it
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
