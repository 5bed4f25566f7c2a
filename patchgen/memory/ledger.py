"""Which storages live when, and who made them.

In: everything that torch computes while the mode is on, of real or of fake tensors.  Out: entries, one a storage, with
the moments of its birth and death.  A storage is counted once, however many tensors look at it.  What kernels take and
give back inside one call is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from patchgen.memory.accumulate import added_in_place, sole

PHASES = ("before", "forward", "backward", "optimizer")
# Copies of weights in another type, such as autocast makes.
_CASTS = frozenset({"aten._to_copy.default", "prims.convert_element_type.default"})


@dataclass(slots=True)
class Entry:
    """One storage.  `born` and `died` are moments: how many births and deaths there were before."""

    bytes: int
    shape: tuple[int, ...]  # of the first tensor on it
    dtype: torch.dtype
    role: str  # "" until something says what it is
    maker: str  # the operation
    path: str  # of the module whose forward ran; "" outside of all
    phase: str
    born: int
    died: int | None = None
    saved: bool = False  # autograd kept it for the backward pass
    saved_in: str = ""  # the phase in which it was kept: "backward" for what a checkpoint computed again


class Ledger(TorchDispatchMode):
    """A mode that keeps the books of one device; `entries` are in the order of birth."""

    def __init__(self, device: str, grain: int = 1) -> None:
        super().__init__()
        self.device = device
        self.grain = grain  # what an allocator rounds up to
        self.entries: list[Entry] = []
        self.phase = PHASES[0]
        self.starts: list[tuple[int, str]] = []  # at which moment which phase began
        self._moment = 0
        self._sole = sole()  # asked here, because autograd is off inside a dispatch
        self._open: dict[int, tuple[Entry, Any]] = {}  # by storage
        self._paths: list[str] = []

    def begin(self, phase: str) -> None:
        """What comes is of `phase`."""
        self.phase = phase
        self.starts.append((self._moment, phase))

    @property
    def now(self) -> int:
        """The current moment."""
        return self._moment

    def close(self) -> None:
        """Nothing that happens from now on is written down."""
        self._open.clear()

    def note(self, tensors: Iterable[Tensor | None], role: str) -> None:
        """The storages of `tensors` are of `role`, whatever they were taken for."""
        for tensor in tensors:
            entry = self._entry(tensor, "") if tensor is not None else None
            if entry is not None:
                entry.role = role

    def keep(self, tensor: Tensor) -> None:
        """Autograd keeps `tensor`."""
        entry = self._entry(tensor, "")
        if entry is not None and not entry.saved:
            entry.saved, entry.saved_in = True, self.phase

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.phase == "backward" and added_in_place(func, args, self._sole):
            return torch.ops.aten.add_.Tensor(*args)
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                entry = self._entry(tensor, str(func))
                if entry is not None and entry.maker in _CASTS and not entry.role:
                    entry.role = self._cast(args[0])
        return out

    def _cast(self, given: Tensor) -> str:
        found = self._open.get(_place(given))
        return "casts" if found is not None and found[0].role in ("weights", "casts") else ""

    def _entry(self, tensor: Tensor, maker: str) -> Entry | None:
        if tensor.device.type != self.device or tensor.layout != torch.strided:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._open.get(key)
        if found is not None:
            return found[0]
        size = -(-storage.nbytes() // self.grain) * self.grain
        path = self._paths[-1] if self._paths else ""
        entry = Entry(size, tuple(tensor.shape), tensor.dtype, "", maker, path, self.phase, self._moment)
        self._moment += 1
        self.entries.append(entry)
        self._open[key] = entry, weakref.ref(storage, lambda _: self._close(key))
        return entry

    def _close(self, key: int) -> None:
        entry, _ = self._open.pop(key)
        entry.died = self._moment
        self._moment += 1

    @contextmanager
    def following(self, model: nn.Module) -> Iterator[None]:
        """A context in which what is made is said to be made by the modules of `model`, and gradients are known."""
        names = {module: name for name, module in model.named_modules()}
        inside: list[nn.Module] = []

        def enter(module: nn.Module, args: Any) -> None:
            if module in names:
                inside.append(module)
                self._paths.append(names[module])

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            # A checkpoint's recompute ends in the middle of a forward: what is further inside has not been left.
            if module in inside:
                last = len(inside) - 1 - inside[::-1].index(module)
                del inside[last:], self._paths[last:]

        removers = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
            *self._gradient_hooks(model),
        ]
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor):
                yield
        finally:
            for remover in removers:
                remover.remove()

    def _gradient_hooks(self, model: nn.Module) -> list[Any]:
        def taken(parameter: Tensor) -> None:
            self.note([parameter.grad], "gradients")

        wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return [parameter.register_post_accumulate_grad_hook(taken) for parameter in wanted]

    def _pack(self, tensor: Tensor) -> Tensor:
        self.keep(tensor)
        # An output that is kept with its own graph would keep itself.
        return tensor.detach() if tensor.grad_fn is not None else tensor


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
