from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


def enable(model):
    for name, module in model._modules.items():
        if isinstance(module, modeling_llama.LlamaMLP):
            module.forward = forward.__get__(module)

# says:
# patch.py:9:5: PG810 what follows depends on `for name, module in model._modules.items():`
#     hint: say how it is applied: --apply 'enable(model=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
