from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


def patch(cls):
    cls.forward = forward

# says:
# patch.py:9:5: PG810 assigns to `cls.forward`, which is no class or module that the file imports
#     hint: if it is of one class: --apply 'LlamaAttention.forward = ...', with your class
