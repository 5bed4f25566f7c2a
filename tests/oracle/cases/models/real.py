# Classes of installed models.
# The format is told in ../../packages.py; `# parent:` is the module whose names are overridden.

# === llama: value of the parent's forward
# parent: transformers.models.llama.modeling_llama
# overrides: LlamaMLP
# --- modular_neo.py
from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        out = super().forward(x)
        return out * <1>
# --- probe
from oracle_models import *
model = fill(LlamaForCausalLM(config("llama")))
keys(model)
model(words()).logits
gradients(model, model(words()).logits)

# === llama: norm with another signature
# parent: transformers.models.llama.modeling_llama
# overrides: LlamaRMSNorm
# --- modular_neo.py
import torch
from torch import nn

from transformers.models.llama import modeling_llama as llama


class LlamaRMSNorm(llama.LlamaRMSNorm):
    def __init__(self, hidden_size, eps=1e-6, unit_offset=True):
        super().__init__(hidden_size, eps)
        self.weight = nn.Parameter(torch.zeros(hidden_size))
        self.offset = <1>.0 if unit_offset else 0.0

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return ((self.offset + self.weight) * x).to(dtype)
# --- probe
from oracle_models import *
model = fill(LlamaForCausalLM(config("llama")))
keys(model)
repr(model.model.norm)
model(words()).logits

# === llama: new model
# parent: transformers.models.llama.modeling_llama
# classes: NeoMLP, NeoModel, NeoForCausalLM
# overrides: LlamaMLP > NeoMLP, LlamaModel > NeoModel, LlamaForCausalLM > NeoForCausalLM
# renames: Llama > Neo
# --- modular_neo.py
from torch import nn

from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaMLP, LlamaModel


class NeoMLP(LlamaMLP):
    def forward(self, x):
        return super().forward(x) * <1>


class NeoModel(LlamaModel):
    def __init__(self, config):
        super().__init__(config)
        self.extra_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, *args, **kwargs):
        outputs = super().forward(*args, **kwargs)
        outputs.last_hidden_state = self.extra_norm(outputs.last_hidden_state)
        return outputs


class NeoForCausalLM(LlamaForCausalLM):
    pass
# --- probe
from oracle_models import *
model = fill(NeoForCausalLM(config("llama")))
keys(model)
model(words()).logits
model._no_split_modules

# === bert: embeddings and self attention
# parent: transformers.models.bert.modeling_bert
# overrides: BertEmbeddings, BertSelfAttention, BertPooler
# --- modular_neo.py
from torch import nn

from transformers.models.bert import modeling_bert as bert


class BertEmbeddings(bert.BertEmbeddings):
    def __init__(self, config):
        super().__init__(config)
        del self.token_type_embeddings
        self.position_embeddings = nn.Embedding(config.max_position_embeddings * 2, config.hidden_size)

    def forward(self, input_ids=None, token_type_ids=None, position_ids=None, inputs_embeds=None, **kwargs):
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(self.LayerNorm(words + self.position_embeddings(position_ids)))


class BertSelfAttention(bert.BertSelfAttention):
    def forward(self, hidden_states, *args, **kwargs):
        return super().forward(hidden_states * <1>, *args, **kwargs)


class BertPooler(bert.BertPooler):
    def forward(self, hidden_states):
        pooled = super().forward(hidden_states)
        return pooled.relu()
# --- probe
from oracle_models import *
model = fill(BertModel(config("bert")))
keys(model)
positions = torch.arange(7).expand(2, 7)
model(words(), position_ids=positions).last_hidden_state
model(words(), position_ids=positions).pooler_output
