"""Optimizers by name, as `bench` and `memory` build them, and Muon for Trainer."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

# torch's three implementations of AdamW: one tensor at a time, by lists of tensors, one kernel.
_ADAMW: dict[str, dict[str, Any]] = {
    "adamw-loop": {"foreach": False},
    "adamw-foreach": {"foreach": True},
    "adamw": {"fused": True},
}
RATE = 1e-4  # speed and memory do not depend on it


class NotInstalled(Exception):
    """The optimizer needs a package that is not installed."""


def build_optimizer(
    name: str, parameters: Iterable[nn.Parameter] | list[dict[str, Any]]
) -> torch.optim.Optimizer:
    """Build the optimizer over parameters or groups of them.

    Names are those of AdamW above, "adamw-8bit", "sgd", "momentum", "adafactor" (the one that
    Trainer takes, of transformers) and "torch-adafactor".  Raises NotInstalled for a missing
    package, and ValueError for an unknown name.
    """
    if name in _ADAMW:
        return torch.optim.AdamW(parameters, lr=RATE, **_ADAMW[name])
    match name:
        case "adamw-8bit":
            if importlib.util.find_spec("bitsandbytes") is None:
                raise NotInstalled("bitsandbytes is not installed")
            return importlib.import_module("bitsandbytes").optim.AdamW8bit(parameters, lr=RATE)
        case "sgd":
            return torch.optim.SGD(parameters, lr=RATE)
        case "momentum":
            return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)
        case "adafactor":
            from transformers.optimization import Adafactor

            return Adafactor(parameters, lr=RATE, scale_parameter=False, relative_step=False)
        case "torch-adafactor":
            return torch.optim.Adafactor(parameters, lr=RATE)
    raise ValueError(f"no optimizer is called {name}")


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon for the matrices of the layers; AdamW for embeddings, the head, norms and biases."""

    def __init__(self, model: nn.Module, lr: float, weight_decay: float = 0.0) -> None:
        outside = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        head = getattr(model, "get_output_embeddings", lambda: None)()
        if head is not None:
            outside.append(head)
        words: set[int] = set()
        for module in outside:
            words.update(map(id, module.parameters()))
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for weight in trained:
            is_matrix = weight.dim() == 2 and id(weight) not in words
            (matrices if is_matrix else rest).append(weight)
        # The update of a matrix gets the size that AdamW's has, so that one rate fits both.
        muon = torch.optim.Muon(
            matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        self.parts = (muon, torch.optim.AdamW(rest, lr=lr, weight_decay=weight_decay))
        super().__init__([{"params": trained}], {"lr": lr})
        self._take_groups()

    def _take_groups(self) -> None:
        """Those of the parts, which replace theirs when they are loaded."""
        self.param_groups = []
        for part in self.parts:
            self.param_groups += part.param_groups

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Make a step of both."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both."""
        return {str(number): part.state_dict() for number, part in enumerate(self.parts)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` has returned."""
        for number, part in enumerate(self.parts):
            part.load_state_dict(state_dict[str(number)])
        self._take_groups()


class MuonFactory:
    """What Trainer calls to make the optimizer: `optimizer_cls_and_kwargs=(MuonFactory, ...)`."""

    def __call__(self, model: nn.Module, **rest: Any) -> torch.optim.Optimizer:
        return MuonWithAdamW(model, **rest)
