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
    stacked = {
        name
        for module in model.modules()
        if type(module).__module__ == type(model).__module__
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.dim() == 3
    }
    if "_weight_conversions" in text and stacked:
        model.base_model.register_forward_pre_hook(_WatchAdapters(model, tuple(sorted(stacked))))


@dataclass(eq=False)
class _WatchAdapters:
    """A hook of the base model: what wraps layers in adapters does so in place."""

    model: PreTrainedModel
    stacked: tuple[str, ...]
    warned: bool = False

    def __call__(self, module: nn.Module, args: Any) -> None:
        if self.warned or torch.compiler.is_compiling():
            return
        names = [name for name, _ in self.model.named_parameters()]
        adapted = [name for name in names if "lora_" in name]
        if adapted and not any(".experts." in name for name in adapted):
            self.warned = True
            warnings.warn(
                f"the experts of {type(self.model).__name__} are stacked parameters, and no "
                f"adapter is on them: LoraConfig(target_parameters={list(self.stacked)})",
                stacklevel=2,
            )


def warn_where_the_loss_is_inert(model: PreTrainedModel, text: str) -> None:
    """Let `model`, whose generated module has `text`, warn once if TRL computes its loss."""
    base = model.base_model
    left_out = dict.fromkeys(words for name, words in LEFT_OUT.items() if name in text)
    if base is not model and left_out:
        base.register_forward_pre_hook(_Watch(model, "; ".join(left_out)))


@dataclass(eq=False)
class _Watch:
    """A hook of the base model, which is what TRL's `forward` runs."""

    model: PreTrainedModel
    left_out: str
    warned: bool = False

    def __call__(self, module: nn.Module, args: Any) -> None:
        if self.warned or torch.compiler.is_compiling():
            return
        function = getattr(vars(self.model).get("forward"), "__func__", None)
        # `functools.wraps` gives it the name of the model's own.
        if getattr(function, "__globals__", {}).get("__name__", "").startswith("trl."):
            self.warned = True
            warnings.warn(
                f"TRL computes the loss of {type(self.model).__name__} by its own head, in chunks "
                f"too: {self.left_out}. transformers' Trainer takes the variant's own loss.",
                stacklevel=2,
            )
