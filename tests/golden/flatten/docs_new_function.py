# reason: a function of the modular file replaces the parent's for everything that is reached
# search: installed
# --- modular cohere/modular_cohere.py
import torch

from transformers.models.llama.modeling_llama import LlamaAttention


def rotate_half(x):
    # Split and rotate. Note that this function is different from e.g. Llama.
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    rot_x = torch.stack([-x2, x1], dim=-1).flatten(-2)
    return rot_x


class CohereAttention(LlamaAttention):
    pass
# --- flat modeling_cohere.py: rotate_half
# defines rotate_half, apply_rotary_pos_emb, repeat_kv, eager_attention_forward, CohereAttention


def rotate_half(x):
    # Split and rotate. Note that this function is different from e.g. Llama.
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    rot_x = torch.stack([-x2, x1], dim=-1).flatten(-2)
    return rot_x
