"""How are weights and states of an optimizer that lie on several processes written, and read by any number of them?

In transformers' own format: `shard-*.safetensors` beside the configuration, which `from_pretrained` reads too, and the
optimizer's states under their weights' names in `optimizer/`, as torch.distributed.checkpoint has them.  What one
process has written whole (`model.safetensors`, `optimizer.pt`) is read by several, each taking its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

STATES = "optimizer"


def is_sharded(folder: Path) -> bool:
    """Whether several processes have written it, each its part."""
    from transformers.distributed.checkpoint import is_sharded_checkpoint

    return bool(is_sharded_checkpoint(str(folder)))


def write_weights(model: Any, folder: Path, *, first: bool) -> None:
    """Each process writes what it holds; the first one the configuration too."""
    folder.mkdir(parents=True, exist_ok=True)
    if first:
        model.config.save_pretrained(folder)
    model.save_pretrained(folder, distributed_checkpoint=True)


def read_weights(model: Any, folder: Path) -> None:
    """What several processes have written, into a model that is laid out as it may be, or not at all."""
    from transformers.distributed.checkpoint import _load_model_checkpoint_distributed

    _load_model_checkpoint_distributed(model, str(folder))


def take_weights(model: Any, whole: dict[str, torch.Tensor]) -> tuple[str, ...]:
    """Let each weight be what it is in `whole`, this process's part of it; names of weights that are not in it."""
    held = model.state_dict()
    with torch.no_grad():
        for name in held.keys() & whole.keys():
            held[name].copy_(like(whole[name], held[name]))
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    return tuple(sorted(held.keys() - whole.keys() - tied))


def like(whole: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """This process's part of a tensor that every process holds, laid out as `model` is."""
    if not isinstance(model, DTensor) or whole.shape != model.shape:
        return whole
    # Nothing is sent: each process has the whole of it.
    return distribute_tensor(
        whole.to(model.device), model.device_mesh, model.placements, src_data_rank=None
    )


def write_states(model: Any, optimizer: Any, folder: Path) -> None:
    """Each process writes the states of what it holds."""
    from transformers.distributed.checkpoint import save_optimizer_distributed

    save_optimizer_distributed(model, optimizer, str(folder / STATES))


def read_states(model: Any, optimizer: Any, folder: Path) -> None:
    """What `write_states` wrote, whatever number of processes that was."""
    from transformers.distributed.checkpoint import load_optimizer_distributed

    load_optimizer_distributed(model, optimizer, str(folder / STATES))


def take_states(optimizer: Any, names: Sequence[Any], whole: dict[str, Any]) -> None:
    """Let the optimizer be where one that held whole weights was.

    `names` are its weights in the order in which that one counted them.
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
