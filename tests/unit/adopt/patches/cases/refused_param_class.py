from transformers.models.llama import modeling_llama


def forward(self, x):
    return x


def patch(cls):
    cls.forward = forward

# says:
# patch.py:9:5: PG810 assigns to `cls.forward`, whose class only the running program knows
#     hint: if it is that class: --apply 'CLASS.forward = forward'
