import torch
import transformers
from transformers import LlamaForCausalLM
from transformers.models.llama import LlamaModel

_OLD = 3


def get_rope(self):
    return self.rotary_emb


LlamaModel.get_rope = get_rope


def forward(self, input_ids=None, **kwargs):
    outputs = self.model(input_ids=input_ids)
    logits = self.lm_head(outputs.last_hidden_state) + self.model.get_rope().inv_freq.sum()
    return transformers.modeling_outputs.CausalLMOutputWithPast(logits=logits)


LlamaForCausalLM.forward = forward

# says:
# patch.py:13:1: PG810 changes transformers.models.llama.LlamaModel.get_rope, which no modeling file has
#     hint: name the release that the patch was written for: --release X
