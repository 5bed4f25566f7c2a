import types

from transformers.models.llama.modeling_llama import LlamaMLP


def cubed(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) ** 3 * self.up_proj(x))


def enable(model):
    for name, module in model.named_modules():
        if not isinstance(module, LlamaMLP):
            continue
        setattr(module, "forward", types.MethodType(cubed, module))

# says:
# patch.py:12:12: PG810 what follows depends on `isinstance(module, LlamaMLP)`
#     hint: say how it is applied: --apply 'enable(model=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
