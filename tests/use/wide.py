"""A project with one variant: a Llama with a model type of its own."""

WIDE = {
    "pyproject.toml": '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n',
    "modular/wide/modular_wide.py": '''"""A Llama whose feed-forward outputs count twice."""

from transformers.models.llama import modeling_llama as llama
from transformers.models.llama.configuration_llama import LlamaConfig


class WideConfig(LlamaConfig):
    model_type = "wide"


class WideMLP(llama.LlamaMLP):
    def forward(self, x):
        return 2 * super().forward(x)


class WideForCausalLM(llama.LlamaForCausalLM):
    pass
''',
}
