# search: installed
# --- modular modular_gemma_x.py
import torch
from torch import nn

from transformers import initialization as init
from transformers.models.gemma import modeling_gemma as gemma
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, MixtralTopKRouter
from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2FeatureProjection


class GemmaMLP(gemma.GemmaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.norm = LlamaRMSNorm(config.hidden_size)
        self.moe = MixtralSparseMoeBlock(config)
        self.projection = Wav2Vec2FeatureProjection(config)


class GemmaPreTrainedModel(gemma.GemmaPreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, MixtralTopKRouter):
            init.ones_(module.weight)
# --- flat modeling_gemma_x.py: GemmaPreTrainedModel
# defines GemmaTextScaledWordEmbedding, GemmaRMSNorm, GemmaMLP, GemmaRotaryEmbedding, rotate_half, apply_rotary_pos_emb, repeat_kv, eager_attention_forward, GemmaAttention, GemmaDecoderLayer, GemmaPreTrainedModel, GemmaModel, GemmaForCausalLM, GemmaForSequenceClassification, GemmaForTokenClassification


@auto_docstring
class GemmaPreTrainedModel(PreTrainedModel):
    config: GemmaConfig
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

    def _init_weights(self, module):
        self._init_weights_of_GemmaPreTrainedModel(module)
        if isinstance(module, MixtralTopKRouter):
            init.ones_(module.weight)
        if isinstance(module, LlamaRMSNorm):
            PreTrainedModel._init_weights(self, module)
        std = self.config.initializer_range
        if isinstance(module, MixtralExperts):
            init.normal_(module.gate_up_proj, mean=0.0, std=std)
            init.normal_(module.down_proj, mean=0.0, std=std)
        if isinstance(module, Wav2Vec2FeatureProjection):
            k = math.sqrt(1 / module.projection.in_features)
            init.uniform_(module.projection.weight, a=-k, b=k)
            init.uniform_(module.projection.bias, a=-k, b=k)

    @torch.no_grad()
    def _init_weights_of_GemmaPreTrainedModel(self, module):
        super()._init_weights(module)
        # We initialize with 0s to be 1 centered as the RMSNorm here does (1 + weight)
        if "RMSNorm" in module.__class__.__name__:
            init.zeros_(module.weight)
        elif isinstance(module, GemmaTextScaledWordEmbedding):
            init.constant_(module.embed_scale, module.scalar_embed_scale)
