"""qwen3 with norm, written by `patchgen new`.

Each RMSNorm is one call of `rms_norm`, rounded as the parent rounds. See `patchgen.parts.norm`.
"""

from transformers.models.qwen3 import modeling_qwen3 as qwen3

from patchgen.parts.norm import FusedRMSNorm


class Qwen3RMSNorm(FusedRMSNorm, qwen3.Qwen3RMSNorm):
    pass
