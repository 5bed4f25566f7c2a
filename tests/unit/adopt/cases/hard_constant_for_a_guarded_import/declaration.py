"""A fork."""

from transformers.models.toy import modeling_toy as toy


# Ours: never used.
flash_attn_func = None


flash_attn_varlen_func = None


class ToyAttention(toy.ToyAttention):
    def forward(self, x):
        if toy.is_fast:
            x = self.attend(x)
        return x + self.scale
