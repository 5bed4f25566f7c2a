# reason: a function imported from a model comes along with what it needs
# search: installed
# --- modular my_new/modular_my_new.py
import torch
from torch import nn

from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, eager_attention_forward


class MyNewAttention(nn.Module):
    def forward(self, q, k, v, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return eager_attention_forward(self, q, k, v, None, 1.0)
# --- flat modeling_my_new.py: repeat_kv, MyNewAttention
# defines rotate_half, apply_rotary_pos_emb, repeat_kv, eager_attention_forward, MyNewAttention


def repeat_kv(hidden_states: torch.Tensor, n_rep: int) -> torch.Tensor:
    """
    This is the equivalent of torch.repeat_interleave(x, dim=1, repeats=n_rep). The hidden states go from (batch,
    num_key_value_heads, seqlen, head_dim) to (batch, num_attention_heads, seqlen, head_dim)
    """
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    if n_rep == 1:
        return hidden_states
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


class MyNewAttention(nn.Module):
    def forward(self, q, k, v, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return eager_attention_forward(self, q, k, v, None, 1.0)
