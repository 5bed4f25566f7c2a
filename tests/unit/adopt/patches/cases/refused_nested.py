def apply():
    import torch
    from transformers.models.llama import modeling_llama

    def squash(x):
        return torch.sigmoid(x)

    def forward(self, x):
        return self.down_proj(squash(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))

    modeling_llama.LlamaMLP.forward = forward
    print("patched")


apply()

# says:
# patch.py:11:39: PG810 LlamaMLP.forward depends on a definition inside a function
#     hint: say how it is applied: --apply 'apply()'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
