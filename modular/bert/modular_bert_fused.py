"""BERT with one matrix product for the queries, keys and values of its self-attention.

For those who train it on short rows in small batches, where the launches of kernels cost as much as their work: a
layer has a product in place of three, and in the backward pass two in place of six; with large matrices there is
little to gain.  Cross-attention is as it was.  Checkpoints are BERT's, read and written.  See `patchgen.parts.fused`
for what is refused.
"""

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.fused import FusedLinear, FusedProjections
from torch import nn
from transformers.models.bert import modeling_bert as bert


class BertSelfAttention(bert.BertSelfAttention):
    @edit("__init__")
    def make_one_of_three(self, inputs: Hole, width: Hole):
        with old:
            self.query = nn.Linear(inputs, width)
            self.key = nn.Linear(inputs, width)
            self.value = nn.Linear(inputs, width)
        with new:
            self.qkv = FusedLinear(inputs, {"query": width, "key": width, "value": width})

    @edit("forward")
    def project_once(self, hidden_states, hidden_shape, query_layer, key_layer, value_layer):
        with old:
            query_layer = self.query(hidden_states).view(*hidden_shape).transpose(1, 2)
            key_layer = self.key(hidden_states).view(*hidden_shape).transpose(1, 2)
            value_layer = self.value(hidden_states).view(*hidden_shape).transpose(1, 2)
        with new:
            query_layer, key_layer, value_layer = (
                part.view(*hidden_shape).transpose(1, 2) for part in self.qkv(hidden_states).chunk(3, dim=-1)
            )


class BertPreTrainedModel(FusedProjections, bert.BertPreTrainedModel):
    pass
