"""Records which storages exist when, and what made them.

A dispatch mode sees all that torch computes, on real or fake tensors, and records an allocation for
each storage, with the moments of its birth and death.  A storage counts once, however many tensors
view it.  Of a tensor that is distributed over ranks, the local part counts.  FSDP2 resizes the
storages of gathered weights; each time this is a new allocation.  What a kernel allocates and frees
during one call is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from patchgen.training.memory.collectives import Exchange, describe_exchange, is_collective
from patchgen.training.memory.inplace_gradients import is_in_place_sum, sole_counts
from patchgen.training.patching import patched
from patchgen.verify.observe.recorder import find_python_body, watch_saved

PHASES = ("before", "forward", "backward", "optimizer")
# The role of storages that are emptied and filled again.
GATHERED = "gathered"
_resize = torch.UntypedStorage.resize_
# Operations that copy weights to another dtype, as autocast does.
_CASTS = frozenset({"aten._to_copy.default", "prims.convert_element_type.default"})


@dataclass(slots=True)
class Allocation:
    """One storage.  `born` and `died` are moments: the number of births and deaths before."""

    bytes: int
    shape: tuple[int, ...]  # of the first tensor on it
    dtype: torch.dtype
    role: str  # "" until something says what it is
    maker: str  # the operation
    path: str  # of the module whose forward ran; "" outside of any module
    phase: str
    born: int
    died: int | None = None
    saved: bool = False  # autograd kept it for the backward pass
    saved_in: str = (
        ""  # the phase in which it was kept: "backward" for what a checkpoint computed again
    )
    exchanged: bool = False  # a buffer for what other ranks get or sent


class Ledger(TorchDispatchMode):
    """A dispatch mode that records the allocations of one device, in the order of birth."""

    def __init__(self, device: str, grain: int = 1) -> None:
        super().__init__()
        self.device = device
        self.grain = grain  # what an allocator rounds up to
        self.allocations: list[Allocation] = []
        self.phase = PHASES[0]
        self.starts: list[tuple[int, str]] = []  # at which moment which phase began
        self.exchanges: list[Exchange] = []
        self._moment = 0
        self._sole = sole_counts()  # asked here, because autograd is off inside a dispatch
        self._open: dict[int, tuple[Allocation, Any]] = {}  # by storage
        self._paths: list[str] = []

    def begin(self, phase: str) -> None:
        """Start a phase."""
        self.phase = phase
        self.starts.append((self._moment, phase))

    @property
    def now(self) -> int:
        """Return the current moment."""
        return self._moment

    def close(self) -> None:
        """Stop recording."""
        self._open.clear()

    def forget_dead(self) -> None:
        """Drop what has died: it belongs to building the model, and not to a step."""
        self.allocations = [
            allocation for allocation in self.allocations if allocation.died is None
        ]

    def note(self, tensors: Iterable[Tensor | None], role: str) -> None:
        """Set the role of the storages of `tensors`."""
        for tensor in tensors:
            for part in local_parts(tensor) if tensor is not None else ():
                allocation = self._entry(part, "")
                if allocation is not None:
                    allocation.role = role

    def keep(self, tensor: Tensor) -> None:
        """Record that autograd saves `tensor`."""
        for part in local_parts(tensor):
            allocation = self._entry(part, "")
            if allocation is not None and not allocation.saved:
                allocation.saved, allocation.saved_in = True, self.phase

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if any(map(is_wrapper, types)):
            return NotImplemented  # the wrapper runs operations on its parts, which come here
        if self.phase == "backward" and is_in_place_sum(func, args, self._sole):
            return torch.ops.aten.add_.Tensor(*args)
        body = find_python_body(func)
        if body is not None:
            with self:  # so that allocations inside it count
                return body(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        if is_collective(func):
            self._exchange(func, args, kwargs or {}, out)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                allocation = self._entry(tensor, str(func))
                if allocation is not None and allocation.maker in _CASTS and not allocation.role:
                    allocation.role = self._cast(args[0])
        return out

    def _exchange(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Record a collective, and mark the storages that it reads and writes."""
        found = describe_exchange(func, args, kwargs, out, self.phase)
        if found is None:
            return
        self.exchanges.append(found)
        if func.namespace != "c10d":  # of activations, which are used without a copy
            return
        for leaf in tree_leaves((args, out)):
            allocation = self._entry(leaf, str(func)) if isinstance(leaf, Tensor) else None
            if allocation is not None:
                allocation.exchanged = True

    def _cast(self, given: Tensor) -> str:
        found = self._open.get(_place(given))
        return (
            "casts" if found is not None and found[0].role in ("weights", "casts", GATHERED) else ""
        )

    def _entry(self, tensor: Tensor, maker: str) -> Allocation | None:
        if tensor.device.type != self.device or tensor.layout != torch.strided:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._open.get(key)
        if found is not None:
            return found[0]
        size = self._rounded(storage.nbytes())
        allocation = Allocation(
            size, tuple(tensor.shape), tensor.dtype, "", maker, self._path, self.phase, self._moment
        )
        self._moment += 1
        self.allocations.append(allocation)
        self._open[key] = allocation, weakref.ref(storage, lambda _: self._close(key))
        return allocation

    def _close(self, key: int) -> None:
        allocation, _ = self._open.pop(key)
        allocation.died = self._moment
        self._moment += 1

    def _resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """Resize `storage`: its allocation ends, and a new one begins."""
        key = storage._cdata
        found = self._open.get(key)
        _resize(storage, size)
        if found is None and storage.device.type != self.device:
            return
        if found is None:
            before = Allocation(0, (size,), torch.uint8, GATHERED, "", "", self.phase, self._moment)
            reference = weakref.ref(storage, lambda _: self._close(key))
        else:
            before, reference = found
            before.died, before.role = self._moment, GATHERED
            self._moment += 1
        after = replace(
            before, bytes=self._rounded(size), path=self._path, phase=self.phase, born=self._moment
        )
        after.died, after.saved = None, False
        self._moment += 1
        self.allocations.append(after)
        self._open[key] = after, reference

    def _rounded(self, size: int) -> int:
        return -(-size // self.grain) * self.grain

    @property
    def _path(self) -> str:
        return self._paths[-1] if self._paths else ""

    @contextmanager
    def following(self, model: nn.Module) -> Iterator[None]:
        """Record which modules of `model` make what, what autograd saves, and the gradients."""
        names = {module: name for name, module in model.named_modules()}
        inside: list[nn.Module] = []

        def enter(module: nn.Module, args: Any) -> None:
            if module in names:
                inside.append(module)
                self._paths.append(names[module])

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            # A recompute ends midway in a forward, without leaving the modules inside.
            if module in inside:
                last = len(inside) - 1 - inside[::-1].index(module)
                del inside[last:], self._paths[last:]

        def resize(storage: torch.UntypedStorage, size: int) -> None:
            self._resized(storage, size)

        removers = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
            *self._gradient_hooks(model),
        ]
        try:
            with (
                watch_saved(self.keep),
                patched((torch.UntypedStorage, "resize_", resize)),
            ):
                yield
        finally:
            for remover in removers:
                remover.remove()

    def _gradient_hooks(self, model: nn.Module) -> list[Any]:
        def taken(parameter: Tensor) -> None:
            self.note([parameter.grad], "gradients")

        wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return [parameter.register_post_accumulate_grad_hook(taken) for parameter in wanted]


def is_wrapper(kind: type) -> bool:
    """Return whether tensors of this type wrap others, such as the local part of a DTensor."""
    return hasattr(kind, "__tensor_flatten__")


def local_parts(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that hold the values on this rank: mostly `tensor` itself."""
    if not is_wrapper(type(tensor)):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for part in (getattr(tensor, name) for name in names):
        if isinstance(part, Tensor):
            yield from local_parts(part)


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
