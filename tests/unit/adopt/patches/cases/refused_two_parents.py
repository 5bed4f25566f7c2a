from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral


def forward(self, x):
    return x


modeling_llama.LlamaMLP.forward = forward
modeling_mistral.MistralMLP.forward = forward

# says:
# patch.py: PG808 patches llama and mistral: each is a file of its own
#     hint: say which one with --parent
