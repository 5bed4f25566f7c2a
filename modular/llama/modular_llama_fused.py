"""Llama with one matrix product for queries, keys and values, and one for gate and up.

For those who train small models or with short batches, where the launches of kernels cost as much as their work; with
large matrices the gain is small (0 to 5 % are estimated).  Checkpoints are Llama's, read and written.  See
`patchgen.parts.fused` for what is refused.
"""

from patchgen.parts.fused import FusedGateUp, FusedQKV, SplitProjections
from transformers.models.llama import modeling_llama as llama


class LlamaAttention(FusedQKV, llama.LlamaAttention):
    pass


class LlamaMLP(FusedGateUp, llama.LlamaMLP):
    pass


class LlamaPreTrainedModel(SplitProjections, llama.LlamaPreTrainedModel):
    pass
