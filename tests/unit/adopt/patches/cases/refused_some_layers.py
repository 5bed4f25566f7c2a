from types import MethodType

from transformers.models.llama.modeling_llama import LlamaMLP


def forward(self, x):
    return x


def enable(model):
    for layer in model.model.layers[:4]:
        for module in layer.modules():
            if isinstance(module, LlamaMLP):
                module.forward = MethodType(forward, module)

# says:
# patch.py:11:5: PG810 what follows depends on `for layer in model.model.layers[:4]:`
#     hint: say how it is applied: --apply 'enable(model=...)'; or say what it assigns, as in --apply 'LlamaAttention.forward = forward'
