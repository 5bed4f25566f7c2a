"""Qwen3 whose norms are one kernel each, those of queries and keys included, rounded as Qwen3 rounds.

For those who train it without `torch.compile`.  On CUDA a norm in bfloat16 keeps its input and its normed rows, 4
bytes a feature, where transformers keeps 6, two thirds of them in float32; see `patchgen.parts.norm`.
"""

from patchgen.parts.norm import FusedRMSNorm
from transformers.models.qwen3 import modeling_qwen3 as qwen3


class Qwen3RMSNorm(FusedRMSNorm, qwen3.Qwen3RMSNorm):
    pass
