from transformers.models.llama import modeling_llama


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    return q, k


modeling_llama.apply_rotary_pos_emb = apply_rotary_pos_emb

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def apply_rotary_pos_emb_patched(q, k, cos, sin, unsqueeze_dim=1):
# +    return q, k
# -        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
# +        query_states, key_states = apply_rotary_pos_emb_patched(query_states, key_states, cos, sin)
