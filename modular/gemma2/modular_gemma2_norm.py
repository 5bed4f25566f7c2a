"""Gemma 2 whose norms are one kernel each.

For those who train it without `torch.compile`: each of the four norms of a layer keeps one float32 copy of its input
for the backward pass where transformers keeps two, and runs one kernel on CUDA where transformers runs six.  The one
that Gemma adds to its weight is added in float32, as there; see `patchgen.parts.norm`.
"""

from patchgen.parts.norm import FusedOffsetRMSNorm
from transformers.models.gemma2 import modeling_gemma2 as gemma2


class Gemma2RMSNorm(FusedOffsetRMSNorm, gemma2.Gemma2RMSNorm):
    pass
