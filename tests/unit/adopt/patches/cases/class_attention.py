from transformers.models.llama import modeling_llama


class LlamaAttention(modeling_llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = self.scaling * 3


modeling_llama.LlamaAttention = LlamaAttention

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +class LlamaAttention_patched(LlamaAttention):
# +    def __init__(self, config, layer_idx):
# +        super().__init__(config, layer_idx)
# +        self.scaling = self.scaling * 3
# -        self.self_attn = LlamaAttention(config=config, layer_idx=layer_idx)
# +        self.self_attn = LlamaAttention_patched(config=config, layer_idx=layer_idx)
