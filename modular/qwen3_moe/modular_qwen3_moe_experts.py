"""Qwen3-MoE whose experts keep one product for the backward pass.

For those who train it: of a token and one of its experts, gate and up are kept, and nothing else; what transformers'
grouped experts keep beside them (the token's copy, two steps of the activation, what comes down) is made again without
a matrix product, or not needed.  The forward pass is the parent's, rounding included, so that tokens choose the same
experts.  `experts_implementation` says nothing here.  See `patchgen.parts.experts`.
"""

from patchgen.parts.experts import LeanExperts
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe


class Qwen3MoeExperts(LeanExperts, qwen3_moe.Qwen3MoeExperts):
    pass
