"""Mixtral whose experts are chosen once under activation checkpointing.

    model.activation_checkpointing_enable()

The recompute takes the experts that the forward pass chose.  Where transformers computes the router again,
a logit that rounds otherwise sends the token to another expert, and the gradients belong to no function.

`import patchgen.runtime` and `experts_implementation="lean"` make experts keep less (`patchgen.runtime.lean_experts`).
"""

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import ChooseOnce
from transformers.models.mixtral import modeling_mixtral as mixtral


class MixtralTopKRouter(mixtral.MixtralTopKRouter):
    @edit("forward")
    def leave_what_topk_gave(self, router_top_value):
        with old:
            router_top_value /= router_top_value.sum(dim=-1, keepdim=True)
        with new:
            router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)


class MixtralPreTrainedModel(ChooseOnce, mixtral.MixtralPreTrainedModel):
    pass
