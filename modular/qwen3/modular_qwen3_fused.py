"""Qwen3 with one matrix product for queries, keys and values, and one for gate and up.

For those who train small models or with short batches, where the launches of kernels cost as much as their work; with
large matrices the gain is small (0 to 5 % are estimated).  Checkpoints are Qwen3's, read and written.  See
`patchgen.parts.fused` for what is refused.
"""

from patchgen.parts.fused import FusedGateUp, FusedQKV, SplitProjections
from transformers.models.qwen3 import modeling_qwen3 as qwen3


class Qwen3Attention(FusedQKV, qwen3.Qwen3Attention):
    pass


class Qwen3MLP(FusedGateUp, qwen3.Qwen3MLP):
    pass


class Qwen3PreTrainedModel(SplitProjections, qwen3.Qwen3PreTrainedModel):
    pass
