"""qwen3_moe with checkpoint and loss, written by `patchgen new`.

Under activation checkpointing a recompute takes the experts that the forward pass chose; see
`patchgen.parts.checkpoint`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.
"""

from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import ChooseOnce
from patchgen.parts.loss import ChunkedLoss


class Qwen3MoeTopKRouter(qwen3_moe.Qwen3MoeTopKRouter):
    @edit("forward")
    def leave_what_topk_gave(self, router_top_value):
        with old:
            router_top_value /= router_top_value.sum(dim=-1, keepdim=True)
        with new:
            router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)


class Qwen3MoePreTrainedModel(ChooseOnce, qwen3_moe.Qwen3MoePreTrainedModel):
    pass


class Qwen3MoeForCausalLM(ChunkedLoss, qwen3_moe.Qwen3MoeForCausalLM):
    pass
