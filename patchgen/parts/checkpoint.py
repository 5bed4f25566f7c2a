# What the mixin calls is of the class beside it.
# mypy: disable-error-code="misc"
"""Activation checkpointing of models with a router: a recompute takes the experts that were chosen.

A model without checkpointing needs no part: its layers become transformers'
`GradientCheckpointingLayer`, and the model declares it.

    class AlbertLayer(albert.AlbertLayer, GradientCheckpointingLayer): ...


    class AlbertPreTrainedModel(albert.AlbertPreTrainedModel):
        supports_gradient_checkpointing = True

What is kept besides the inputs of a layer is an option: see `patchgen.runtime.checkpointing`.

A router needs more.  A logit that is computed again can round otherwise and send a token to another
expert; then the gradients belong to no function.  `ChooseOnce` keeps what `topk` returned in the
forward pass:

    class MixtralPreTrainedModel(ChooseOnce, mixtral.MixtralPreTrainedModel): ...

A router must not change in place what `topk` returned: torch raises an error.
"""

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


class ChooseOnce:
    """Under activation checkpointing, a recompute takes the experts that the forward pass chose."""

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Any = checkpoint, **more: Any
    ) -> None:
        options = getattr(gradient_checkpointing_func, "keywords", {})
        # Not where the user chooses what is kept; a reentrant recompute can keep nothing.
        if "context_fn" not in options and options.get("use_reentrant") is False:
            choices = partial(create_selective_checkpoint_contexts, [torch.ops.aten.topk.default])
            gradient_checkpointing_func = partial(gradient_checkpointing_func, context_fn=choices)
        super()._set_gradient_checkpointing(enable, gradient_checkpointing_func, **more)
