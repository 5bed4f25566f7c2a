from transformers.models.llama import modeling_llama


def forward(self, x):
    return undefined_thing(x)


modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:5:12: PG810 reads undefined_thing, which nothing in this file binds
#     hint: import it
