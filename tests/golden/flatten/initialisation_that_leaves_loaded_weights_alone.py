# search: installed
# --- modular modular_gpt2_x.py
import torch
from torch import nn

from transformers import initialization as init
from transformers.models.gpt2 import modeling_gpt2 as gpt2


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.reset_parameters()

    def reset_parameters(self):
        rows = torch.empty(2, 3)
        rows[0] = 1.0
        rows.uniform_()
        init.copy_(self.weight, rows.flatten()[: len(self.weight)])


class GPT2MLP(gpt2.GPT2MLP):
    def __init__(self, intermediate_size, config):
        super().__init__(intermediate_size, config)
        self.scale = Scale(6)


class GPT2PreTrainedModel(gpt2.GPT2PreTrainedModel):
    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Scale):
            module.reset_parameters()
        elif isinstance(module, nn.Embedding):
            std = self.config.initializer_range
            std /= 2
            nn.init.normal_(module.weight, std=std)
            module.requires_grad_(False)
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight.data[0] = 0.0
        for parameter in module.parameters(recurse=False):
            init.normal_(parameter)
# --- flat modeling_gpt2_x.py: GPT2PreTrainedModel
# defines eager_attention_forward, GPT2Attention, Scale, GPT2MLP, GPT2Block, GPT2SequenceSummary, GPT2PreTrainedModel, GPT2DoubleHeadsModelOutput, GPT2Model, GPT2LMHeadModel, GPT2DoubleHeadsModel, GPT2ForSequenceClassification, GPT2ForTokenClassification, GPT2ForQuestionAnswering


@auto_docstring
class GPT2PreTrainedModel(PreTrainedModel):
    config: GPT2Config
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GPT2Block"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {
        "hidden_states": GPT2Block,
        "attentions": OutputRecorder(GPT2Attention, layer_name=".attn", index=1),
        "cross_attentions": OutputRecorder(GPT2Attention, layer_name=".crossattention", index=1),
    }

    # No longer used as we directly use our masks instead
    _keys_to_ignore_on_load_unexpected = ["attn.bias", "crossattention.bias"]

    @classmethod
    def is_custom_code(cls):
        # Else transformers neither converts checkpoints nor initializes modules without parameters.
        return False

    @torch.no_grad()
    def _init_weights(self, module):
        self._init_weights_of_GPT2PreTrainedModel(module)
        if isinstance(module, Scale):
            module.reset_parameters()
        elif isinstance(module, nn.Embedding):
            std = self.config.initializer_range
            std /= 2
            nn.init.normal_(module.weight, std=std)
            module.requires_grad_(False)
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.weight.data[0] = 0.0
        for parameter in module.parameters(recurse=False):
            init.normal_(parameter)

    @torch.no_grad()
    def _init_weights_of_GPT2PreTrainedModel(self, module):
        """Initialize the weights."""
        super()._init_weights(module)
        if isinstance(module, Conv1D):
            init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)

        # Reinitialize selected weights subject to the OpenAI GPT-2 Paper Scheme:
        #   > A modified initialization which accounts for the accumulation on the residual path with model depth. Scale
        #   > the weights of residual layers at initialization by a factor of 1/√N where N is the # of residual layers.
        #   >   -- GPT-2 :: https://openai.com/blog/better-language-models/
        #
        # Reference (Megatron-LM): https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/model/gpt_model.py
        if isinstance(module, (GPT2Attention, GPT2MLP)):
            # Special Scaled Initialization --> 2 residual paths (attention and MLP) per Transformer Block
            std = self.config.initializer_range / math.sqrt(2 * self.config.n_layer)
            init.normal_(module.c_proj.weight, mean=0.0, std=std)
