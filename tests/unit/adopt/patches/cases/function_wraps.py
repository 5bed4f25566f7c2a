from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


def halved(q, k, cos, sin, unsqueeze_dim=1):
    q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
    return q / 2, k


modeling_llama.apply_rotary_pos_emb = halved

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def halved(q, k, cos, sin, unsqueeze_dim=1):
# +    q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
# +    return q / 2, k
# -        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
# +        query_states, key_states = halved(query_states, key_states, cos, sin)
