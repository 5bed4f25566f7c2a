# reason: del of statements, a method of its own, an explicit parent __init__, an embedding of torch
# search: installed
# --- modular gemma/modular_gemma.py
import torch
from torch import nn

from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm


class GemmaRMSNorm(LlamaRMSNorm):
    def __init__(self, dim: int, eps: float = 1e-6):
        nn.Module.__init__(self)
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        output = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (output * (1.0 + self.weight.float())).type_as(x)


class GemmaMLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)


class GemmaModel(LlamaModel):
    def __init__(self, config):
        super().__init__(config)
        del self.gradient_checkpointing


class GemmaForCausalLM(LlamaForCausalLM):
    pass
# --- flat modeling_gemma.py: GemmaRMSNorm, GemmaMLP
# defines auto_docstring, GemmaRMSNorm, GemmaMLP, GemmaRotaryEmbedding, rotate_half, apply_rotary_pos_emb, repeat_kv, eager_attention_forward, GemmaAttention, GemmaDecoderLayer, GemmaPreTrainedModel, GemmaModel, GemmaForCausalLM


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        nn.Module.__init__(self)
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        output = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (output * (1.0 + self.weight.float())).type_as(x)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"


class GemmaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.intermediate_size = config.intermediate_size
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=config.mlp_bias)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=config.mlp_bias)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=config.mlp_bias)
        self.act_fn = ACT2FN[config.hidden_act]
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)

    def forward(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj
