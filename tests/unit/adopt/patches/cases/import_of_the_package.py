from transformers import LlamaModel, PretrainedConfig, PreTrainedModel


def forward(self, x, config: PretrainedConfig | None = None):
    assert isinstance(self, object) and PreTrainedModel is not None
    return self.down_proj(self.up_proj(x))


def patch():
    from transformers.models.llama import modeling_llama

    modeling_llama.LlamaMLP.forward = forward
    LlamaModel.is_patched = True

# says:
# patch.py:13:5: LlamaModel.is_patched has no effect: LlamaModel has no is_patched, and nothing calls it
# +
# +from transformers import PretrainedConfig
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -    def forward(self, x):
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +    def forward(self, x, config: PretrainedConfig | None = None):
# +        assert isinstance(self, object) and PreTrainedModel is not None
# +        return self.down_proj(self.up_proj(x))
