"""Records the collectives of a step, their bytes, and the bytes that a rank sends.

The bytes sent are those of a ring, which no algorithm undercuts (Patarasuk & Yuan 2009,
doi:10.1016/j.jpdc.2008.09.002), and of a direct all-to-all.  Of S bytes in total, each of N ranks
sends S (N-1)/N in an all-gather, a reduce-scatter and an all-to-all, and twice that in an
all-reduce, which is a reduce-scatter and an all-gather.  NCCL's tests count in the same way (see
their PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

# How often a rank sends each byte of the whole, except for the N-th part that stays there.
WAYS = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "all-to-all": 1, "broadcast": 1}
RESULT = -1
# By operation: the kind, and the position of the argument that is the whole tensor.
_WHOLE: dict[str, tuple[str, int]] = {
    "c10d::allreduce_": ("all-reduce", 0),
    "c10d::allreduce_coalesced_": ("all-reduce", 0),
    "c10d::broadcast_": ("broadcast", 0),
    "c10d::allgather_": ("all-gather", 0),
    "c10d::allgather_coalesced_": ("all-gather", 0),
    "c10d::_allgather_base_": ("all-gather", 0),
    "c10d::allgather_into_tensor_coalesced_": ("all-gather", 0),
    "c10d::reduce_scatter_": ("reduce-scatter", 1),
    "c10d::_reduce_scatter_base_": ("reduce-scatter", 1),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce-scatter", 1),
    "c10d::alltoall_base_": ("all-to-all", 1),
    "c10d::alltoall_": ("all-to-all", 1),
    "_c10d_functional::all_reduce": ("all-reduce", 0),
    "_c10d_functional::all_reduce_": ("all-reduce", 0),
    "_c10d_functional::all_reduce_coalesced": ("all-reduce", 0),
    "_c10d_functional::all_reduce_coalesced_": ("all-reduce", 0),
    "_c10d_functional::broadcast": ("broadcast", 0),
    "_c10d_functional::broadcast_": ("broadcast", 0),
    "_c10d_functional::all_gather_into_tensor": ("all-gather", RESULT),
    "_c10d_functional::all_gather_into_tensor_out": ("all-gather", RESULT),
    "_c10d_functional::all_gather_into_tensor_coalesced": ("all-gather", RESULT),
    "_c10d_functional::reduce_scatter_tensor": ("reduce-scatter", 0),
    "_c10d_functional::reduce_scatter_tensor_out": ("reduce-scatter", 0),
    "_c10d_functional::reduce_scatter_tensor_coalesced": ("reduce-scatter", 0),
    "_c10d_functional::all_to_all_single": ("all-to-all", 0),
    "_dtensor::shard_dim_alltoall": ("all-to-all", 0),
}
_SILENT = frozenset(
    {
        "c10d::barrier",
        "c10d::monitored_barrier_",
        "_c10d_functional::wait_tensor",
        "_c10d_functional::_wrap_tensor_autograd",
    }
)
_GROUPS = ("process_group", "group_name")  # names of the argument


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective in one phase: `bytes` is the whole tensor, over all `ranks`."""

    kind: str
    bytes: int
    ranks: int
    phase: str

    @property
    def sent(self) -> float:
        """Return the bytes that one rank sends."""
        return self.bytes * WAYS[self.kind] * (self.ranks - 1) / self.ranks


@dataclass(frozen=True, slots=True)
class Sum:
    """The collectives of one kind and phase among the same number of ranks."""

    kind: str
    phase: str
    ranks: int
    times: int
    bytes: int
    sent: float


def sum_exchanges(exchanges: Iterable[Exchange]) -> tuple[Sum, ...]:
    """Group equal collectives, in the order of their first one."""
    alike: dict[tuple[str, str, int], list[Exchange]] = {}
    for each in exchanges:
        alike.setdefault((each.kind, each.phase, each.ranks), []).append(each)
    return tuple(
        Sum(*key, len(found), sum(each.bytes for each in found), sum(each.sent for each in found))
        for key, found in alike.items()
    )


def is_collective(func: Any) -> bool:
    """Return whether `func` is an operation between ranks."""
    return func.namespace in ("c10d", "_c10d_functional", "_dtensor")


def kind_of(func: Any) -> str:
    """Return the kind of collective: a key of `WAYS`, or "" where it sends nothing.

    Raises TypeError for an unknown operation, whose bytes would not be counted.
    """
    name = func._schema.name
    if name in _SILENT:
        return ""
    if name not in _WHOLE:
        raise TypeError(f"{name} is a collective whose bytes are not counted here")
    return _WHOLE[name][0]


def describe_exchange(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any, phase: str
) -> Exchange | None:
    """Return what `func` exchanges; None where it sends nothing, or has one rank only."""
    kind = kind_of(func)
    if not kind:
        return None
    ranks, size = (
        int(group_of(func, args, kwargs).size()),
        sum(map(_bytes, whole_of(func, args, out))),
    )
    return Exchange(kind, size, ranks, phase) if ranks > 1 and size else None


def group_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the process group among the arguments, given as an object or by its name."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.name in _GROUPS:
            given = args[position] if position < len(args) else kwargs[argument.name]
            if isinstance(given, torch.ScriptObject):
                return torch.distributed.ProcessGroup.unbox(given)
            return (
                torch._C._distributed_c10d._resolve_process_group(given)
                if isinstance(given, str)
                else given
            )
    raise TypeError(f"{func._schema.name} has no group")


def whole_of(func: Any, args: Sequence[Any], out: Any) -> Iterator[Tensor]:
    """Return the tensors that hold all that is exchanged."""
    where = _WHOLE[func._schema.name][1]
    return (
        leaf
        for leaf in tree_leaves(out if where == RESULT else args[where])
        if isinstance(leaf, Tensor)
    )


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
