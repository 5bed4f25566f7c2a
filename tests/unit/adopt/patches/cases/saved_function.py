from transformers.models.llama import modeling_llama

_rope = modeling_llama.apply_rotary_pos_emb


def rope(q, k, cos, sin, **kwargs):
    q, k = _rope(q, k, cos, sin, **kwargs)
    return q * 0.5, k


modeling_llama.apply_rotary_pos_emb = rope

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def rope(q, k, cos, sin, **kwargs):
# +    q, k = apply_rotary_pos_emb(q, k, cos, sin, **kwargs)
# +    return q * 0.5, k
# -        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
# +        query_states, key_states = rope(query_states, key_states, cos, sin)
