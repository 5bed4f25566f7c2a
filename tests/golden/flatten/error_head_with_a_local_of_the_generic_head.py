# search: installed
# --- modular modular_llama_x.py
from torch import nn

from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return super().forward(x) * 2


class LlamaForTokenClassification(llama.LlamaForTokenClassification):
    def __init__(self, config):
        classifier_dropout = 0.3
        super().__init__(config)
        self.dropout = nn.Dropout(classifier_dropout)
# --- error
modular_llama_x.py:12:5: PG415 LlamaForTokenClassification.__init__ leaves it to transformers which base model is built
    hint: write `super().__init__(config)` once, on a line of its own outside any other statement, and rename classifier_dropout
