"""Makes one training step as `Trainer` does, on real or fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

from patchgen.runtime.checkpointing import options_of, switch_on
from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.cuda_kernels import device_label
from patchgen.training.memory.location import find_origin
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.target import Target
from patchgen.training.optimizers import build_optimizer
from patchgen.training.precision import autocast_to, weights_in
from patchgen.verify.observe.step import takes_cache

HALVES = (torch.bfloat16, torch.float16)


def build_model(target: Target, setup: Setup) -> PreTrainedModel:
    """Return the model on the device of `setup`, in training mode.

    Raises ValueError for a configuration, an attention or a checkpoint policy that it does not
    support.
    """
    config = type(target.config)(**target.config.to_dict())
    more = {"attn_implementation": setup.attention} if setup.attention else {}
    dtype = getattr(torch, weights_in(setup.precision))
    with torch.device(device_label(setup.device)):
        try:
            model: PreTrainedModel = target.model_class._from_config(config, dtype=dtype, **more)
        except (
            RuntimeError,
            IndexError,
            TypeError,
            AttributeError,
            KeyError,
            ImportError,
        ) as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            raise ValueError(f"{target.model_class.__name__} cannot be built: {what}") from error
    model.train()
    _checkpoint(model, setup)
    return model


def _checkpoint(model: PreTrainedModel, setup: Setup) -> None:
    if setup.checkpoint == "none":
        return
    if not model.supports_gradient_checkpointing:
        raise ValueError(
            f"{type(model).__name__} has no activation checkpointing: the part checkpoint gives it"
        )
    more = {"every_n_layers": setup.every} if setup.every > 1 else {}
    switch_on(model, options_of(setup.checkpoint), **more)


def make_optimizer(parameters: Iterable[nn.Parameter], name: str) -> torch.optim.Optimizer:
    """Build the optimizer over what is trained, set as `Trainer` sets it."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return build_optimizer(name, _group_by_mesh(trained))


def _group_by_mesh(parameters: Iterable[nn.Parameter]) -> list[dict[str, list[nn.Parameter]]]:
    """Return groups that an optimizer takes in one call: by device mesh."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return [{"params": group} for group in groups.values()]


def create_optimizer_states(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Make a first optimizer step: it creates the states, which later steps have."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def optimizer_states(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return every tensor that the optimizer keeps."""
    return [
        value
        for of_one in optimizer.state.values()
        for value in of_one.values()
        if isinstance(value, Tensor)
    ]


def run_step(
    model: PreTrainedModel,
    given: Mapping[str, Tensor],
    setup: Setup,
    optimizer: torch.optim.Optimizer,
    begin: Callable[[str], None] = lambda phase: None,
    called: nn.Module | None = None,
) -> None:
    """Run forward and backward for each accumulated batch, then the optimizer.

    `begin` is called with each phase.  `called` is DDP around the model; it sends gradients in the
    last pass.
    """
    called = called or model
    for left in reversed(range(setup.accumulate)):
        unsynced = (
            called.no_sync()
            if left and isinstance(called, DistributedDataParallel)
            else nullcontext()
        )
        with unsynced:
            begin("forward")
            loss = _loss(model, called, given, setup)
            begin("backward")
            (loss / setup.accumulate if setup.accumulate > 1 else loss).backward()
            del loss
    begin("optimizer")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _loss(
    model: PreTrainedModel, called: nn.Module, given: Mapping[str, Tensor], setup: Setup
) -> Tensor:
    more: dict[str, Any] = {"use_cache": False} if takes_cache(type(model)) else {}
    precision: AbstractContextManager[Any] = nullcontext()
    narrow = autocast_to(setup.precision)
    if narrow:
        precision = torch.autocast(device_label(setup.device), getattr(torch, narrow))
    with precision:
        try:
            out = called(**given, **more)
        except (RuntimeError, IndexError, ValueError, TypeError, AttributeError, KeyError) as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            hint = "try a shorter --length, another --attention, or other values by --set"
            raise PatchgenError(
                "PG822", find_origin(error), f"the model's forward fails: {what}", hint
            ) from error
        if narrow:  # as Accelerate does for Trainer
            out = tree_map_only(
                Tensor, lambda each: each.float() if each.dtype in HALVES else each, out
            )
        loss = out.loss if getattr(out, "loss", None) is not None else _sum(out)
    return loss


def _sum(out: Any) -> Tensor:
    """Return a loss over every output, for a class without a loss."""
    floats = [each for each in out.to_tuple() if isinstance(each, Tensor) and each.requires_grad]
    if not floats:
        raise ValueError("the forward gives nothing that can be derived")
    return torch.stack([each.float().mean() for each in floats]).sum()
