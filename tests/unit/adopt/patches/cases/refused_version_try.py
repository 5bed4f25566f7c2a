from transformers.models.llama.modeling_llama import LlamaMLP

try:
    from transformers.models.llama.modeling_llama import LlamaSdpaAttention
except ImportError:
    LlamaSdpaAttention = None


def forward(self, x):
    return self.down_proj(self.up_proj(x))


LlamaMLP.forward = forward
if LlamaSdpaAttention is not None:
    LlamaSdpaAttention.forward = forward

# says:
# patch.py:14:4: PG810 what follows depends on `LlamaSdpaAttention is not None`
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
