"""Mixtral with a choice of what activation checkpointing keeps, and whose experts are chosen once.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

Under every policy the recompute takes the experts that the forward pass chose.  Where transformers computes the router
again, a logit that rounds otherwise sends the token to another expert, and the gradients belong to no function.
"""

from transformers.models.mixtral import modeling_mixtral as mixtral

from patchgen.parts.checkpoint import Checkpointing


class MixtralPreTrainedModel(Checkpointing, mixtral.MixtralPreTrainedModel):
    pass
