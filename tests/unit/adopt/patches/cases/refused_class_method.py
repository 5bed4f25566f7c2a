from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


class Patcher:
    def apply(self):
        modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:10:9: PG810 LlamaMLP.forward is assigned by a method of a class
#     hint: say what it assigns: --apply 'LlamaMLP.forward = ...'
