from transformers.models.llama.modeling_llama import LlamaMLP, _expand_mask


def forward(self, x):
    return x


LlamaMLP.forward = forward

# says:
# patch.py:1:1: PG810 imports transformers.models.llama.modeling_llama._expand_mask, which this release does not have
#     hint: name the release that the patch was written for: --release X
