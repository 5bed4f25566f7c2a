# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, call-arg, has-type, misc"
"""Mixins that make a dense model's configuration, base class and head those of a mixture."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import PreTrainedConfig
from transformers import initialization as init
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.output_capturing import OutputRecorder, maybe_install_capturing_hooks

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.losses import with_router_losses
from patchgen.parts.moe.routing import MixtureRouter
from patchgen.parts.moe.upcycle import upcycling


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
    router_aux_loss_coef (`float`, *optional*, defaults to 0.005):
        Weight of transformers' load-balancing loss in training.
    router_z_loss_coef (`float`, *optional*, defaults to 0.001):
        Weight of the router z-loss in training.
    output_router_logits (`bool`, *optional*, defaults to `True`):
        Whether outputs have the `router_logits`; the router losses need them.
    """

    keys_to_ignore_at_inference = ["past_key_values", "router_logits", "aux_loss"]

    num_experts: int = 8
    num_experts_per_tok: int = 2
    moe_every: int = 1
    norm_topk_prob: bool = True
    router_aux_loss_coef: float = 0.005
    router_z_loss_coef: float = 0.001
    output_router_logits: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        # A dense checkpoint says its own type, by which transformers would not find how to load it.
        kwargs.pop("model_type", None)
        super().__post_init__(**kwargs)


def split_experts(model: Any) -> None:
    """Let the plans of `model` split its experts as those of transformers' Mixtral do."""
    modules = {}
    for name, module in model.named_modules():
        if not isinstance(module, nn.Identity):
            modules[re.sub(r"\.\d+(?=\.|$)", ".*", name)] = module
    model._tp_plan = {path: style for path, style in model._tp_plan.items() if path in modules}
    for path, module in modules.items():
        if isinstance(module, MixtureExperts):
            weights = [f"{path}.{name}" for name, _ in module.named_parameters()]
            model._ep_plan |= dict.fromkeys(weights, "grouped_gemm") | {path: "ep_dispatch_experts"}
            if module.has_bias:  # every process would add it
                refused = {"tp": "experts with biases are split whole: ep_size"}
                model._tp_plan, model._plans_refused = {}, refused
            elif model._tp_plan:
                up = "packed_colwise" if module.has_gate else "colwise"
                model._tp_plan |= {path: "moe_tp_experts", weights[0]: up, weights[1]: "rowwise"}


class MixtureModel:
    """Initializes mixtures, records router logits, loads dense checkpoints, plans for processes."""

    # For each weight of the experts, the dense layer's weights in it, by their names in the layer.
    _dense_weights: Mapping[str, Sequence[str]] = {}
    # Whether they are weights of Conv1D, with the input features first.
    _dense_weights_transposed = False

    def __init__(self, config: PreTrainedConfig, *inputs: Any, **kwargs: Any) -> None:
        routers = {"router_logits": OutputRecorder(MixtureRouter, index=0)}
        self._can_record_outputs = {**(type(self)._can_record_outputs or {}), **routers}
        super().__init__(config, *inputs, **kwargs)

    def post_init(self) -> None:
        super().post_init()
        split_experts(self)
        if self.base_model is self:  # in the first forward a compiler would stop at their lock
            maybe_install_capturing_hooks(self)

    @staticmethod
    def _load_pretrained_model(model: Any, state: Any, files: Any, load: Any, *args: Any) -> Any:
        load.weight_mapping.extend(upcycling(model))
        loaded = PreTrainedModel._load_pretrained_model(model, state, files, load, *args)
        model._weight_conversions = []  # a mixture is saved as it is
        return loaded

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, MixtureRouter | MixtureExperts):
            std = getattr(self.config, "initializer_range", None) or 0.02
            for name, parameter in module.named_parameters():
                if name.endswith("_bias"):
                    init.zeros_(parameter)
                else:
                    init.normal_(parameter, mean=0.0, std=std)


class MixtureHead:
    """The router's losses in the head's loss, in training with labels."""

    @edit("forward")
    def add_the_router_losses(self, outputs, attention_mask, labels, kwargs, output: Hole):
        with old:
            return output(...)
        with new:
            head_outputs = output(...)
            items = kwargs.get("num_items_in_batch")
            return with_router_losses(self, head_outputs, outputs, attention_mask, labels, items)
