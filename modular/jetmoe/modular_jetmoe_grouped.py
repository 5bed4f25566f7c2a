"""JetMoE whose experts, of attention too, run in grouped GEMMs instead of a loop over experts.

For those who train it on a GPU: one product for all experts, and no synchronisation to count their tokens.  Router and
checkpoints are the parent's.  Attention has its projections as experts, which are no pair of products of one token:
transformers' interface of experts has no place for them, and its grouped GEMM is called alone.

Written by hand: no two loops over experts are alike, and these are of attention too.
"""

import torch
from transformers.integrations.moe import _grouped_linear
from transformers.models.jetmoe import modeling_jetmoe as jetmoe

from patchgen.edits import edit, new, old


class JetMoeParallelExperts(jetmoe.JetMoeParallelExperts):
    @edit("forward")
    def run_them_together(self, inputs, expert_size, input_list):
        with old:
            input_list = inputs.split(expert_size, dim=0)
        with new:
            # torch's grouped product takes rows of whole 16 bytes, and no float64.
            is_aligned = all(size % 8 == 0 for size in self.weight.shape[1:])
            if is_aligned and inputs.dtype != torch.float64:
                kind = inputs.device.type
                dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype
                return _grouped_linear(inputs.to(dtype), self.weight.to(dtype), expert_size.cumsum(0).int())
            input_list = inputs.split(expert_size.tolist(), dim=0)


class JetMoeTopKGating(jetmoe.JetMoeTopKGating):
    @edit("forward")
    def leave_the_counts_on_the_device(self, expert_size):
        with old:
            expert_size = expert_size.tolist()
        with new:
            pass
