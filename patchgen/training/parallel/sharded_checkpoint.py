"""Saves and loads sharded weights and optimizer states, on any number of processes.

The format is transformers' own: `shard-*.safetensors` with the configuration, which
`from_pretrained` loads too, and the optimizer's states in `optimizer/`, by
torch.distributed.checkpoint. Several processes can also load what one process has saved whole
(`model.safetensors`, `optimizer.pt`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

STATES = "optimizer"


def is_sharded(folder: Path) -> bool:
    """Return whether several processes have saved the checkpoint, each its part."""
    from transformers.distributed.checkpoint import is_sharded_checkpoint

    return bool(is_sharded_checkpoint(str(folder)))


def write_weights(model: Any, folder: Path, *, first: bool) -> None:
    """Save this process's part; the first process saves the configuration too."""
    folder.mkdir(parents=True, exist_ok=True)
    if first:
        model.config.save_pretrained(folder)
    model.save_pretrained(folder, distributed_checkpoint=True)


def read_weights(model: Any, folder: Path) -> None:
    """Load a sharded checkpoint into a model with any layout, or none."""
    from transformers.distributed.checkpoint import _load_model_checkpoint_distributed

    _load_model_checkpoint_distributed(model, str(folder))


def take_weights(model: Any, whole: dict[str, torch.Tensor]) -> tuple[str, ...]:
    """Copy this process's part of whole weights into the model; return missing names."""
    held = model.state_dict()
    with torch.no_grad():
        for name in held.keys() & whole.keys():
            held[name].copy_(like(whole[name], held[name]))
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    return tuple(sorted(held.keys() - whole.keys() - tied))


def like(whole: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return this process's part of a whole tensor, laid out as `model` is."""
    if not isinstance(model, DTensor) or whole.shape != model.shape:
        return whole
    # Nothing is sent: each process has the whole tensor.
    return distribute_tensor(
        whole.to(model.device), model.device_mesh, model.placements, src_data_rank=None
    )


def write_states(model: Any, optimizer: Any, folder: Path) -> None:
    """Save the optimizer states of this process's part."""
    from transformers.distributed.checkpoint import save_optimizer_distributed

    save_optimizer_distributed(model, optimizer, str(folder / STATES))


def read_states(model: Any, optimizer: Any, folder: Path) -> None:
    """Load what `write_states` has saved on any number of processes."""
    from transformers.distributed.checkpoint import load_optimizer_distributed

    load_optimizer_distributed(model, optimizer, str(folder / STATES))


def take_states(optimizer: Any, names: Sequence[Any], whole: dict[str, Any]) -> None:
    """Load the states of an optimizer over whole weights.

    `names` are the weights in the order in which that optimizer numbered them.
    """
    settings = {
        key: value
        for key, value in whole["param_groups"][0].items()
        if key not in ("params", "weight_decay")
    }
    for group in optimizer.param_groups:
        group |= settings
    for number, states in whole["state"].items():
        weight = names[number]
        optimizer.state[weight] = {
            key: like(value, weight) if isinstance(value, torch.Tensor) and value.dim() else value
            for key, value in states.items()
        }
