from transformers.models.llama import modeling_llama


def scale(self, hidden_states):
    return hidden_states * self.weight * 2.0


def extra_repr(self):
    return "scaled"


for name, value in [("forward", scale), ("extra_repr", extra_repr)]:
    setattr(modeling_llama.LlamaRMSNorm, name, value)

# says:
# patch.py:12:1: PG810 what follows depends on `for name, value in [('forward', scale), ('extra_repr', extra_repr)]:`
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
