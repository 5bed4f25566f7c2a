"""Qwen3-MoE with a choice of what activation checkpointing keeps, experts chosen once, and a loss without logits.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

For those who fine-tune it at long sequences.  Under every policy the recompute takes the experts that the forward pass
chose: where transformers computes the router again, a logit that rounds otherwise sends the token to another expert,
and the gradients belong to no function.  In training with labels `outputs.logits` is None; the router's loss is added
as in the parent.
"""

from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

from patchgen.parts.checkpoint import Checkpointing
from patchgen.parts.loss import ChunkedLoss


class Qwen3MoePreTrainedModel(Checkpointing, qwen3_moe.Qwen3MoePreTrainedModel):
    pass


class Qwen3MoeForCausalLM(ChunkedLoss, qwen3_moe.Qwen3MoeForCausalLM):
    pass
