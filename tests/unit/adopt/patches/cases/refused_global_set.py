from transformers.models.llama import modeling_llama

GROUP = 4


def forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * GROUP


def apply(group=2):
    global GROUP
    GROUP = group
    modeling_llama.LlamaMLP.forward = forward


# apply: apply(3)

# says:
# patch.py:11:5: PG810 what follows depends on `global GROUP`
#     hint: say how it is applied: --apply 'apply(group=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
