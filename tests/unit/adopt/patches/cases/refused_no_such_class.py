from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


modeling_llama.LlamaSdpaAttention.forward = forward

# says:
# patch.py:8:1: PG810 changes LlamaSdpaAttention.forward, which is no class of transformers.models.llama.modeling_llama in this release
#     hint: name the release that the patch was written for: --release X
