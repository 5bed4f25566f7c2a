import torch
from torch import nn
from transformers.models.llama import modeling_llama


def eager_attention_forward(
    module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs
):
    key = modeling_llama.repeat_kv(key, module.num_key_value_groups)
    value = modeling_llama.repeat_kv(value, module.num_key_value_groups)
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    weights = 5 * torch.tanh(weights / 5)
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    output = torch.matmul(weights, value).transpose(1, 2).contiguous()
    return output, weights


modeling_llama.eager_attention_forward = eager_attention_forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def eager_attention_forward_patched(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
# +    key = repeat_kv(key, module.num_key_value_groups)
# +    value = repeat_kv(value, module.num_key_value_groups)
# +    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
# +    weights = 5 * torch.tanh(weights / 5)
# +    if attention_mask is not None:
# +        weights = weights + attention_mask
# +    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
# +    output = torch.matmul(weights, value).transpose(1, 2).contiguous()
# +    return output, weights
# -def eager_attention_forward(
# -    module: nn.Module,
# -    query: torch.Tensor,
# -    key: torch.Tensor,
# -    value: torch.Tensor,
# -    attention_mask: torch.Tensor | None,
# -    scaling: float,
# -    dropout: float = 0.0,
# -    **kwargs: Unpack[TransformersKwargs],
# -):
# -    key_states = repeat_kv(key, module.num_key_value_groups)
# -    value_states = repeat_kv(value, module.num_key_value_groups)
# -
# -    attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling
# -    if attention_mask is not None:
# -        attn_weights = attn_weights + attention_mask
# -
# -    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
# -    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
# -    attn_output = torch.matmul(attn_weights, value_states)
# -    attn_output = attn_output.transpose(1, 2).contiguous()
# -
# -    return attn_output, attn_weights
# -            self.config._attn_implementation, eager_attention_forward
# +            self.config._attn_implementation, eager_attention_forward_patched
