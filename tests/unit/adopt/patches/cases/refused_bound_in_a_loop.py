from transformers.models.llama import modeling_llama

for rotate_half in range(3):
    pass


def forward(self, x):
    return x * rotate_half


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:1:1: PG810 reads rotate_half, which is bound in a way that is not read
#     hint: make it a constant
