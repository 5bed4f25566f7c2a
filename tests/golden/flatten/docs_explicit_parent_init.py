# reason: the parent's __init__ is skipped by calling the grandparent's
# search: installed
# --- modular my_new/modular_my_new.py
from torch import nn

from transformers.models.llama.modeling_llama import LlamaMLP


class MyNewMLP(LlamaMLP):
    def __init__(self, config):
        nn.Module.__init__(self)
        self.config = config
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act_fn = nn.GELU()
# --- flat modeling_my_new.py: MyNewMLP
# defines MyNewMLP


class MyNewMLP(nn.Module):
    def __init__(self, config):
        nn.Module.__init__(self)
        self.config = config
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act_fn = nn.GELU()

    def forward(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj
