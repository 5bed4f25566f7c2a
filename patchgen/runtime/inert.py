"""A warning where a trainer goes past the loss of a variant.

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

# What the parts `loss` and `liger` call in a head, by its name in the generated module.
OF_THE_LOSS = ("loss_from_states", "labelled_tokens")


def warn_where_the_loss_is_inert(model: PreTrainedModel, text: str) -> None:
    """Let `model`, whose generated module has `text`, say once that TRL computes its loss."""
    base = model.base_model
    if base is not model and any(name in text for name in OF_THE_LOSS):
        base.register_forward_pre_hook(_Watch(model))


@dataclass(eq=False)
class _Watch:
    """A hook of the base model, which is what TRL's `forward` runs."""

    model: PreTrainedModel
    told: bool = False

    def __call__(self, module: nn.Module, args: Any) -> None:
        if self.told or torch.compiler.is_compiling():
            return
        function = getattr(vars(self.model).get("forward"), "__func__", None)
        # `functools.wraps` gives it the name of the model's own.
        if getattr(function, "__globals__", {}).get("__name__", "").startswith("trl."):
            self.told = True
            warnings.warn(
                f"TRL computes the loss of {type(self.model).__name__} by its own head, in chunks "
                "too: the part `loss` of the variant does not run. It runs in "
                "transformers' Trainer.",
                stacklevel=2,
            )
