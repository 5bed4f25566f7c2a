import os
from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


def patch():
    if os.environ.get("NO"):
        return
    modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:10:8: PG810 what follows depends on `os.environ.get('NO')`
#     hint: say how it is applied: --apply 'patch()'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
