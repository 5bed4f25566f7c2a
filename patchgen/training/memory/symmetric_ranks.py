"""Computes what a rank receives from ranks that do not exist, as if all did what this one does.

All ranks have the same number of rows and deal tokens to experts in the same way.  So another rank
sends what this one would send to itself.  Only values that shapes depend on are needed: how many
tokens arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from patchgen.training.memory.collectives import group_of

# Positions of the argument that is sent, and of the number of rows for each rank.
_SENT = {"c10d::alltoall_base_": (1, 4), "_c10d_functional::all_to_all_single": (0, 2)}
_WAIT = "_c10d_functional::wait_tensor"


def written_and_sent(
    func: Any, args: Sequence[Any], out: Any
) -> tuple[list[Tensor], Tensor | None]:
    """Return the tensors that a collective writes, and the tensor that determines them.

    The second is None where the values do not follow from what this rank sends.
    """
    name = func._schema.name
    given = args[0] if func.namespace == "c10d" and args else out
    written = [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    if name == _WAIT:
        return written, args[0]
    return written, args[_SENT[name][0]] if name in _SENT else None


def receive_from_all(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], value: Tensor
) -> Tensor:
    """Return what all ranks send, where this one sends `value`: its own piece, N times."""
    if func._schema.name == _WAIT:
        return value
    group = group_of(func, args, kwargs)
    sizes = list(args[_SENT[func._schema.name][1]])
    pieces = value.split(sizes) if sizes else value.chunk(int(group.size()))
    return torch.cat([pieces[int(group.rank())]] * int(group.size()))
