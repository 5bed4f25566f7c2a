# search: installed
# --- modular modular_llama_x.py
from torch import nn

from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return super().forward(x) * 2


class LlamaForSequenceClassification(llama.LlamaForSequenceClassification):
    def __init__(self, config):
        if config.num_labels:
            super().__init__(config)
# --- error
modular_llama_x.py:12:5: PG415 LlamaForSequenceClassification.__init__ leaves it to transformers which base model is built
    hint: write `super().__init__(config)` once, on a line of its own outside any other statement
