# reason: a fork of several models, as Florence-2, keeps the import of its configuration
# search: installed
# --- modular modular_gemma_x.py
from transformers.models.gemma import modeling_gemma as gemma
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

from .configuration_x import XConfig  # patchgen: keep


class GemmaMLP(gemma.GemmaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.moe = MixtralSparseMoeBlock(config)


class GemmaPreTrainedModel(gemma.GemmaPreTrainedModel):
    config: XConfig
# --- flat modeling_gemma_x.py: GemmaPreTrainedModel
# defines auto_docstring, GemmaTextScaledWordEmbedding, GemmaRMSNorm, GemmaMLP, GemmaRotaryEmbedding, rotate_half, apply_rotary_pos_emb, repeat_kv, eager_attention_forward, GemmaAttention, GemmaDecoderLayer, GemmaPreTrainedModel, GemmaModel, GemmaForCausalLM, GemmaForSequenceClassification, GemmaForTokenClassification


@auto_docstring
class GemmaPreTrainedModel(PreTrainedModel):
    config: XConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GemmaDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True

    _can_compile_fullgraph = True
    _supports_attention_backend = True
    _can_record_outputs = {
        "hidden_states": GemmaDecoderLayer,
        "attentions": GemmaAttention,
    }

    @classmethod
    def is_custom_code(cls):
        # Else transformers neither converts checkpoints nor initializes modules without parameters.
        return False

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        # We initialize with 0s to be 1 centered as the RMSNorm here does (1 + weight)
        if "RMSNorm" in module.__class__.__name__:
            init.zeros_(module.weight)
        elif isinstance(module, GemmaTextScaledWordEmbedding):
            init.constant_(module.embed_scale, module.scalar_embed_scale)
