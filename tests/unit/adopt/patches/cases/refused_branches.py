import warnings

import torch
from transformers.models.llama import modeling_llama


def plain(self, x):
    return self.down_proj(self.up_proj(x))


def gated(self, x):
    return self.down_proj(torch.sigmoid(self.gate_proj(x)) * self.up_proj(x))


def replace_mlp(gate=True, full=False):
    major, _ = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    if major < 8:
        warnings.warn("slow")
    if full:
        raise ValueError("not yet")
    modeling_llama.LlamaMLP.forward = gated if gate else plain

# says:
# patch.py:21:39: PG810 LlamaMLP.forward depends on `gate`
#     hint: say how it is applied: --apply 'replace_mlp(gate=..., full=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
