# reason: what does not apply is removed by raising AttributeError, or by setting it to one
# search: installed
# --- modular my_new/modular_my_new.py
from transformers.models.llama.modeling_llama import LlamaPreTrainedModel, LlamaRMSNorm


class MyNewPreTrainedModel(LlamaPreTrainedModel):
    _can_compile_fullgraph = AttributeError()


class MyNewRMSNorm(LlamaRMSNorm):
    def extra_repr(self):
        raise AttributeError("Not needed for MyNew")
# --- flat modeling_my_new.py: MyNewPreTrainedModel, MyNewRMSNorm
# defines auto_docstring, rotate_half, apply_rotary_pos_emb, MyNewMLP, repeat_kv, eager_attention_forward, MyNewAttention, MyNewDecoderLayer, MyNewPreTrainedModel, MyNewRMSNorm


@auto_docstring
class MyNewPreTrainedModel(PreTrainedModel):
    config: LlamaConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["MyNewDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {
        "hidden_states": MyNewDecoderLayer,
        "attentions": MyNewAttention,
    }

    @classmethod
    def is_custom_code(cls):
        # Else transformers neither converts checkpoints nor initializes modules without parameters.
        return False


@use_kernel_forward_from_hub("RMSNorm")
class MyNewRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps: float = 1e-6) -> None:
        """
        MyNewRMSNorm is equivalent to T5LayerNorm
        """
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)
