"""Mixins that make a dense model's configuration, base class and head those of a mixture."""

# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, call-arg, has-type"

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import PreTrainedConfig
from transformers import initialization as init
from transformers.utils.output_capturing import OutputRecorder

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.losses import with_router_losses
from patchgen.parts.moe.mixture import MixtureRouter
from patchgen.parts.moe.plans import split_experts
from patchgen.parts.moe.upcycle import take_dense_checkpoints


@strict
class MixtureOptions(PreTrainedConfig):
    r"""
    num_experts (`int`, *optional*, defaults to 8):
        Experts of a layer.
    num_experts_per_tok (`int`, *optional*, defaults to 2):
        Experts that run for a token.
    moe_every (`int`, *optional*, defaults to 1):
        1: every layer has experts. 2: every other one, the second first; and so on.
    norm_topk_prob (`bool`, *optional*, defaults to `True`):
        Whether the gates of a token sum to one; otherwise they are probabilities over all experts.
    capacity_factor (`float`, *optional*):
        In training an expert takes this times its even share of the tokens, padding among them, and drops the rest,
        which `Mixture.dropped` counts. None: nothing is dropped.
    router_aux_loss_coef (`float`, *optional*, defaults to 0.01):
        Weight of the load-balancing loss in training.
    router_z_loss_coef (`float`, *optional*, defaults to 0.001):
        Weight of the router z-loss in training.
    output_router_logits (`bool`, *optional*, defaults to `True`):
        Whether outputs have the `router_logits`; the router losses need them.
    """

    keys_to_ignore_at_inference = ["past_key_values", "router_logits", "aux_loss", "z_loss"]

    num_experts: int = 8
    num_experts_per_tok: int = 2
    moe_every: int = 1
    norm_topk_prob: bool = True
    capacity_factor: float | None = None
    router_aux_loss_coef: float = 0.01
    router_z_loss_coef: float = 0.001
    output_router_logits: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        # A dense checkpoint says its own type, by which transformers would not find how to load it.
        kwargs.pop("model_type", None)
        super().__post_init__(**kwargs)


class MixtureModel:
    """Mixin of a `PreTrainedModel` that has mixtures: they are initialised, what their routers say is recorded,
    dense checkpoints are loaded, and plans for several processes split the experts.
    """

    # For each weight of the experts those of a dense layer that are in it, both as they are called in the layer.
    _dense_weights: Mapping[str, Sequence[str]] = {}
    # Whether they are of Conv1D, the features of its input first.
    _dense_weights_transposed = False

    def __init__(self, config: PreTrainedConfig, *inputs: Any, **kwargs: Any) -> None:
        # transformers reads it at the end of its own.
        self._can_record_outputs = {
            **(type(self)._can_record_outputs or {}),
            "router_logits": OutputRecorder(MixtureRouter, index=0),
        }
        super().__init__(config, *inputs, **kwargs)

    def post_init(self) -> None:
        super().post_init()
        take_dense_checkpoints(self, self._dense_weights, self._dense_weights_transposed)
        split_experts(self)

    @property
    def _weight_conversions(self) -> list[Any]:
        """What transformers undoes when it saves: nothing.  A mixture is saved under its own names.

        Backwards, a renaming of the dense model's weights might also hit those of the experts.
        """
        return []

    @_weight_conversions.setter
    def _weight_conversions(self, used: Any) -> None:
        pass

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        return True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, MixtureRouter | MixtureExperts):
            std = getattr(self.config, "initializer_range", None) or 0.02
            for name, parameter in module.named_parameters():
                init.zeros_(parameter) if name.endswith("_bias") else init.normal_(parameter, mean=0.0, std=std)


class MixtureHead:
    """The router's losses in the head's loss, in training with labels."""

    @edit("forward")
    def add_the_router_losses(self, outputs, attention_mask, labels, kwargs, output: Hole):
        with old:
            return output(...)
        with new:
            return with_router_losses(
                self, output(...), outputs, attention_mask, labels, kwargs.get("num_items_in_batch")
            )
