# search: installed
# --- modular modular_llama_x.py
from torch import nn

from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return super().forward(x) * 2


class LlamaForSequenceClassification(llama.LlamaForSequenceClassification):
    def __init__(self, config):
        config.num_labels = 3
        super().__init__(config)  # builds the model
        self.dropout = nn.Dropout(0.1)


class LlamaForQuestionAnswering(llama.LlamaForQuestionAnswering):
    def __init__(self, config):
        llama.LlamaPreTrainedModel.__init__(self, config)
        self.transformer = llama.LlamaModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
# --- flat modeling_llama_x.py: LlamaForSequenceClassification, LlamaForQuestionAnswering
# defines LlamaRMSNorm, LlamaRotaryEmbedding, rotate_half, apply_rotary_pos_emb, LlamaMLP, repeat_kv, eager_attention_forward, LlamaAttention, LlamaDecoderLayer, LlamaPreTrainedModel, LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification, LlamaForQuestionAnswering, LlamaForTokenClassification


class LlamaForSequenceClassification(GenericForSequenceClassification, LlamaPreTrainedModel):
    def __init__(self, config):
        config.num_labels = 3
        super(GenericForSequenceClassification, self).__init__(config)  # builds the model
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, LlamaModel._from_config(config))
        self.score = nn.Linear(config.get_text_config().hidden_size, self.num_labels, bias=False)

        self.post_init()
        self.dropout = nn.Dropout(0.1)


class LlamaForQuestionAnswering(GenericForQuestionAnswering, LlamaPreTrainedModel):
    base_model_prefix = "transformer"  # For BC, where `transformer` was used instead of `model`

    def __init__(self, config):
        LlamaPreTrainedModel.__init__(self, config)
        self.transformer = LlamaModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
