# search: installed
# --- modular modular_llama_x.py
from torch import nn

from transformers.models.llama import modeling_llama as llama


class LlamaForSequenceClassification(llama.LlamaForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        self.dropout = nn.Dropout(0.1)
# --- flat modeling_llama_x.py: LlamaForSequenceClassification
# defines LlamaRMSNorm, LlamaRotaryEmbedding, rotate_half, apply_rotary_pos_emb, LlamaMLP, repeat_kv, eager_attention_forward, LlamaAttention, LlamaDecoderLayer, LlamaPreTrainedModel, LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification, LlamaForQuestionAnswering, LlamaForTokenClassification


class LlamaForSequenceClassification(GenericForSequenceClassification, LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.dropout = nn.Dropout(0.1)
