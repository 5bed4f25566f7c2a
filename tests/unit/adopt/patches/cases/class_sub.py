from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaMLP


class ScaledMLP(LlamaMLP):
    def forward(self, x):
        return super().forward(x) * 0.5


modeling_llama.LlamaMLP = ScaledMLP

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +class ScaledMLP(LlamaMLP):
# +    def forward(self, x):
# +        return super().forward(x) * 0.5
# -        self.mlp = LlamaMLP(config)
# +        self.mlp = ScaledMLP(config)
