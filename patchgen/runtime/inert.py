"""Warn if a trainer does not run the loss of a variant, or if adapters leave its experts out.

TRL 1.16 gives the model another `forward` in `SFTTrainer` and `DPOTrainer`, which runs the base
model and takes the loss by a head of its own: no statement of the variant's head runs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

# Functions that parts call in a head, by their generated names, and what TRL then leaves out.
LEFT_OUT = {
    "loss_from_states": "the part `loss` of the variant does not run",
    "labelled_tokens": "the part `loss` of the variant does not run",
    "with_router_losses": "the routers have a load-balancing loss, and no z-loss",
}


def warn_where_adapters_miss_experts(model: PreTrainedModel, text: str) -> None:
    """Let `model`, whose generated module has `text`, warn once if adapters leave experts out.

    Experts that the part stacks are parameters, where the parent has linear layers: adapters find
    these by `target_modules="all-linear"` or by name, and parameters by `target_parameters` alone.
    """
    if "_weight_conversions" not in text:
        return
    stacked = set()
    for module in model.modules():
        if type(module).__module__ == type(model).__module__:
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.dim() == 3:
                    stacked.add(name)

    if stacked:
        message = (
            f"the experts of {type(model).__name__} are stacked parameters, and no "
            f"adapter is on them: LoraConfig(target_parameters={sorted(stacked)})"
        )
        model.base_model.register_forward_pre_hook(_WatchAdapters(model, message))


def warn_where_the_loss_is_inert(model: PreTrainedModel, text: str) -> None:
    """Let `model`, whose generated module has `text`, warn once if TRL computes its loss."""
    left_out = dict.fromkeys(words for name, words in LEFT_OUT.items() if name in text)
    if model.base_model is not model and left_out:
        message = (
            f"TRL computes the loss of {type(model).__name__} by its own head, in chunks "
            f"too: {'; '.join(left_out)}. transformers' Trainer takes the variant's own loss."
        )
        model.base_model.register_forward_pre_hook(_WatchLoss(model, message))


@dataclass(eq=False)
class _Watch:
    """A hook of the base model, which runs whatever the head is: it warns once."""

    model: PreTrainedModel
    message: str
    warned: bool = False

    def __call__(self, module: nn.Module, args: Any) -> None:
        if self.warned or torch.compiler.is_compiling():
            return
        if self.is_wrong():
            self.warned = True
            warnings.warn(self.message, stacklevel=2)

    def is_wrong(self) -> bool:
        raise NotImplementedError


class _WatchAdapters(_Watch):
    """What wraps layers in adapters does so in place."""

    def is_wrong(self) -> bool:
        adapted = [name for name, _ in self.model.named_parameters() if "lora_" in name]
        return bool(adapted) and not any(".experts." in name for name in adapted)


class _WatchLoss(_Watch):
    """TRL gives the model another `forward`; `functools.wraps` gives it the name of the own one."""

    def is_wrong(self) -> bool:
        function = getattr(vars(self.model).get("forward"), "__func__", None)
        module: str = getattr(function, "__globals__", {}).get("__name__", "")
        return module.startswith("trl.")
