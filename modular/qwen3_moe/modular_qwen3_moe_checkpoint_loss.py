"""Qwen3-MoE whose experts are chosen once under activation checkpointing, and a loss without logits.

    model.activation_checkpointing_enable()

For those who fine-tune it at long sequences.  The recompute takes the experts that the forward pass chose: where
transformers computes the router again, a logit that rounds otherwise sends the token to another expert, and the
gradients belong to no function.  In training with labels there are no `outputs.logits`; the router's loss is added
as in the parent.

`import patchgen.runtime` and `experts_implementation="lean"` make experts keep less (`patchgen.runtime.lean_experts`).
"""

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import ChooseOnce
from patchgen.parts.loss import ChunkedLoss
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe


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
