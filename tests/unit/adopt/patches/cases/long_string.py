from transformers.models.llama import modeling_llama


def forward(self, x):
    "Doc."
    text = """
    kept
    """

    def inner(y):
        return y + len(text)

    return inner(self.down_proj(self.up_proj(x)))


modeling_llama.LlamaMLP.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        "Doc."
# +        text = """
# +    kept
# +    """
# +
# +        def inner(y):
# +            return y + len(text)
# +
# +        return inner(self.down_proj(self.up_proj(x)))
