"""What goes between ranks: each collective that torch is asked for, its bytes, and those that go over the wire.

In: operations as a dispatch mode sees them.  Out: `Exchange`s.  The bytes on the wire are those of a ring, which no
algorithm undercuts (Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002), and of a direct all-to-all.  Of a whole of
S bytes each of N ranks sends S (N-1)/N in an all-gather, a reduce-scatter and an all-to-all, and twice that in an
all-reduce, which is both.  NCCL's tests count the same way (their PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

# How often each byte of the whole leaves a rank, but for the one N-th that stays there.
WAYS = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "all-to-all": 1, "broadcast": 1}
RESULT = -1
# By the name of the operation, what it is and which argument is the whole that is exchanged.
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
_GROUPS = ("process_group", "group_name")  # what the argument is called


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective: `bytes` is the whole, over `ranks`; in the phase in which it was asked for."""

    kind: str
    bytes: int
    ranks: int
    phase: str

    @property
    def sent(self) -> float:
        """Bytes that one rank sends."""
        return self.bytes * WAYS[self.kind] * (self.ranks - 1) / self.ranks


@dataclass(frozen=True, slots=True)
class Sum:
    """Collectives of one kind among as many ranks in one phase."""

    kind: str
    phase: str
    ranks: int
    times: int
    bytes: int
    sent: float


def sum_exchanges(exchanges: Iterable[Exchange]) -> tuple[Sum, ...]:
    """Together what is alike, in the order in which it first came."""
    alike: dict[tuple[str, str, int], list[Exchange]] = {}
    for each in exchanges:
        alike.setdefault((each.kind, each.phase, each.ranks), []).append(each)
    return tuple(
        Sum(*key, len(found), sum(each.bytes for each in found), sum(each.sent for each in found))
        for key, found in alike.items()
    )


def is_collective(func: Any) -> bool:
    """Whether `func` is an operation between ranks."""
    return func.namespace in ("c10d", "_c10d_functional", "_dtensor")


def kind_of(func: Any) -> str:
    """What `func` is: a key of `WAYS`, or "" for one that carries nothing.

    Raises TypeError for one that is not known: what it carries would not be counted.
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
    """What `func` exchanges; None for what carries nothing, and within one rank."""
    kind = kind_of(func)
    if not kind:
        return None
    ranks, size = (
        int(group_of(func, args, kwargs).size()),
        sum(map(_bytes, whole_of(func, args, out))),
    )
    return Exchange(kind, size, ranks, phase) if ranks > 1 and size else None


def group_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The process group among the arguments, where it stands as an object or by its name."""
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
    """The tensors that hold all that is exchanged."""
    where = _WHOLE[func._schema.name][1]
    return (
        leaf
        for leaf in tree_leaves(out if where == RESULT else args[where])
        if isinstance(leaf, Tensor)
    )


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
