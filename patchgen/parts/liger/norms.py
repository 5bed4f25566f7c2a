# What mixins read is the parent's.
# mypy: disable-error-code="attr-defined, no-any-return"
"""RMSNorms in one kernel, by the dtype in which they multiply by the weight.

Liger calls it `casting_mode`: "llama" casts to the dtype of the input and then multiplies, "gemma"
multiplies in float32 and then casts.
"""

import torch

from patchgen.parts.liger.kernels import liger


class LigerRMSNorm:
    casting_mode = "llama"

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, eps, mode = hidden_states, self.variance_epsilon, self.casting_mode
        return liger.liger_rms_norm(x, self.weight, eps, casting_mode=mode, in_place=False)


class LigerScaledRMSNorm(LigerRMSNorm):
    casting_mode = "gemma"


class LigerScaledEpsRMSNorm:
    # The same, of norms that call their epsilon `eps`.
    offset = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return liger.liger_rms_norm(
            x, self.weight, self.eps, offset=self.offset, casting_mode="gemma", in_place=False
        )


class LigerOffsetRMSNorm(LigerScaledEpsRMSNorm):
    # Multiplied by one plus the weight.
    offset = 1.0
