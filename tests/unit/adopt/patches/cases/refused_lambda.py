from transformers.models.llama import modeling_llama

modeling_llama.LlamaMLP.forward = lambda self, x: x

# says:
# patch.py:3:35: PG810 assigns a lambda
#     hint: write a function
