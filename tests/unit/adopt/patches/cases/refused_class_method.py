from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


class Patcher:
    def apply(self):
        modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:10:9: PG810 is assigned where nothing in this file applies it
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
