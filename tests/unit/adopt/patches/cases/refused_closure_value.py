from transformers.models.llama import modeling_llama


def patch(k):
    def forward(self, x):
        return x * k

    modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:6:20: PG810 reads `k` of the function around it, which depends on `k`
#     hint: make it a constant of the file
