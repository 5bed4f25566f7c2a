import transformers
from transformers.models.llama.modeling_llama import LlamaDecoderLayer


def forward(
    self,
    hidden_states,
    attention_mask=None,
    position_ids=None,
    past_key_values=None,
    use_cache=False,
    position_embeddings=None,
    **kwargs,
):
    residual = hidden_states
    hidden_states = self.input_layernorm(hidden_states)
    # Self Attention
    hidden_states, _ = self.self_attn(
        hidden_states=hidden_states,
        attention_mask=attention_mask,
        position_ids=position_ids,
        past_key_values=past_key_values,
        use_cache=use_cache,
        position_embeddings=position_embeddings,
        **kwargs,
    )
    hidden_states = residual + 0.5 * hidden_states

    # Fully Connected
    residual = hidden_states
    hidden_states = self.post_attention_layernorm(hidden_states)
    hidden_states = self.mlp(hidden_states)
    hidden_states = residual + hidden_states
    return hidden_states


LlamaDecoderLayer.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        hidden_states: torch.Tensor,
# -        attention_mask: torch.Tensor | None = None,
# -        position_ids: torch.LongTensor | None = None,
# -        past_key_values: Cache | None = None,
# -        use_cache: bool | None = False,
# -        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
# -        **kwargs: Unpack[TransformersKwargs],
# -    ) -> torch.Tensor:
# +        hidden_states,
# +        attention_mask=None,
# +        position_ids=None,
# +        past_key_values=None,
# +        use_cache=False,
# +        position_embeddings=None,
# +        **kwargs,
# +    ):
# -        hidden_states = residual + hidden_states
# +        hidden_states = residual + 0.5 * hidden_states
