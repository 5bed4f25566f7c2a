"""What a rank gets from others of which there are none, where all do as this one does.

Every rank sees as many rows and deals its tokens to the experts in the same way, so what comes from another rank is
what this one would send to itself.  That is asked for values that shapes follow from alone: how many tokens come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from patchgen.training.memory.collectives import group_of

# Which argument is sent, and which says how many rows go to each rank.
_SENT = {"c10d::alltoall_base_": (1, 4), "_c10d_functional::all_to_all_single": (0, 2)}
_WAIT = "_c10d_functional::wait_tensor"


def written_and_sent(
    func: Any, args: Sequence[Any], out: Any
) -> tuple[list[Tensor], Tensor | None]:
    """The tensors that a collective gives, and what is sent for them where the one follows from the other."""
    name = func._schema.name
    given = args[0] if func.namespace == "c10d" and args else out
    written = [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    if name == _WAIT:
        return written, args[0]
    return written, args[_SENT[name][0]] if name in _SENT else None


def receive_from_all(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], value: Tensor
) -> Tensor:
    """What comes from all ranks, where this one sends `value`: the piece that it would send to itself, from each."""
    if func._schema.name == _WAIT:
        return value
    group = group_of(func, args, kwargs)
    sizes = list(args[_SENT[func._schema.name][1]])
    pieces = value.split(sizes) if sizes else value.chunk(int(group.size()))
    return torch.cat([pieces[int(group.rank())]] * int(group.size()))
