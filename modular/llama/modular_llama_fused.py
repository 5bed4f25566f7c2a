"""Llama with one matrix product for queries, keys and values, and one for gate and up.

For those who train small models or with short batches, where the launches of kernels cost as much as their work; with
large matrices the gain is small (0 to 5 % are estimated).  Checkpoints are Llama's, read and written.  See
`patchgen.parts.fused` for what is refused.
"""

from patchgen.parts.fused import FusedGateUp, FusedProjections, FusedQKV
from transformers.models.llama import modeling_llama as llama


class LlamaAttention(FusedQKV, llama.LlamaAttention):
    pass


class LlamaMLP(FusedGateUp, llama.LlamaMLP):
    pass


class LlamaPreTrainedModel(FusedProjections, llama.LlamaPreTrainedModel):
    def post_init(self):
        super().post_init()
        self.base_model._tp_plan = {  # the output of fused layers is gathered, as in Phi-3
            "embed_tokens": "embedding_rowwise",
            "layers.*.self_attn.qkv_proj": "colwise_gather_output",
            "layers.*.self_attn.o_proj": "rowwise_split_input",
            "layers.*.mlp.gate_up_proj": "colwise_gather_output",
            "layers.*.mlp.down_proj": "rowwise_split_input",
        }
