"""gemma2 with norm, written by `patchgen new`.

Each RMSNorm is one call of `rms_norm`, rounded as the parent rounds. See `patchgen.parts.norm`.
"""

from transformers.models.gemma2 import modeling_gemma2 as gemma2

from patchgen.parts.norm import FusedOffsetRMSNorm


class Gemma2RMSNorm(FusedOffsetRMSNorm, gemma2.Gemma2RMSNorm):
    pass
