from torch import nn

from ...utils import is_flash_attn_2_available


if is_flash_attn_2_available():
    from flash_attn import flash_attn_func, flash_attn_varlen_func
else:
    flash_attn_varlen_func, flash_attn_func = None, None

is_fast = all((flash_attn_func, flash_attn_varlen_func))


class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attend = flash_attn_func
        self.scale = config.scale

    def forward(self, x):
        if is_fast:
            x = self.attend(x)
        return x * self.scale


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = ToyAttention(config)

    def forward(self, x):
        return self.attention(x)
