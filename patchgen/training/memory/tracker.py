"""Records which storages exist when, and what made them, by torch's `MemTracker`.

`MemTracker` finds the storages and tells weights, gradients and states apart, and `ModTracker`
names the modules.  Here each storage is kept with the moments of its birth and death, so that a
step can be drawn and summed up.  A storage counts once, however many tensors view it.  What a
kernel allocates and frees during one call is not seen.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType, _UpdateType, _WeakRefInfo
from torch.distributed._tools.mod_tracker import ModTracker
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from patchgen.verifying.observe.recorder import count_flops, find_python_body, watch_saved

PHASES = ("before", "forward", "backward", "optimizer")
ROLES = {
    _MemRefType.PARAM: "weights",
    _MemRefType.BUFFER: "buffers",
    _MemRefType.GRAD: "gradients",
    _MemRefType.OTH: "inputs",
}
# Products that torch takes apart above a mode, but not in the body of an operator.
COMPOSED = (torch.ops.aten.matmul, torch.ops.aten.linear)
# Operations that copy weights to another dtype, as autocast does.
CASTS = frozenset({"aten._to_copy.default", "prims.convert_element_type.default"})


@dataclass(slots=True)
class Allocation:
    """One storage.  `born` and `died` are moments: the number of births and deaths before."""

    bytes: int
    role: str  # "" until something says what it is
    maker: str  # the operation
    path: str  # of the module whose forward ran; "" outside of any module
    phase: str
    born: int
    shape: tuple[int, ...] = ()  # of the first tensor on it
    died: int | None = None
    saved: bool = False  # autograd kept it for the backward pass

    def lives_until(self, moment: int) -> bool:
        """Whether it was born before that moment, and did not die before it."""
        return self.born < moment and (self.died is None or self.died >= moment)


class Modules(ModTracker):
    """Follows forward passes only: hooks on gradients fail where a module runs without them."""

    def _fw_pre_hook(self, mod: nn.Module, input: Any) -> None:
        self._get_mod_name(mod)
        self._user_pre_fw_hook(mod, input)

    def _fw_post_hook(self, mod: nn.Module, input: Any, output: Any) -> None:
        self._user_post_fw_hook(mod, input, output)


class Tracker(MemTracker):
    """Records the allocations of one device, in the order of birth, in sizes rounded to `grain`."""

    def __init__(self, device: str, grain: int = 1) -> None:
        super().__init__()
        self._mod_tracker = Modules()
        self.device = device
        self.grain = grain
        self.allocations: list[Allocation] = []
        self.phase = PHASES[0]
        self.starts: list[tuple[int, str]] = []  # at which moment which phase began
        self.now = 0
        self._sole = sole_counts()  # asked here, because autograd is off inside a dispatch
        self._inside: list[nn.Module] = []
        self._paths: list[str] = []
        self._maker = ""
        self._saving: Any = None
        self._hooks: list[Any] = []
        self._paused = False
        self.flops = 0  # of products and attention
        self.launches = 0  # operations that write a tensor

    def as_one_kernel(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return `step` as if compiled: only what it returns is new."""

        def run(*args: Any) -> Any:
            self._paused = True
            self.launches += 1
            try:
                results = step(*args)
            finally:
                self._paused = False
            taken = {id(item) for item in args}
            return tree_map_only(
                Tensor, lambda item: item if id(item) in taken else torch.empty_like(item), results
            )

        return run

    def begin(self, phase: str) -> None:
        """Start a phase."""
        self.phase = phase
        self.starts.append((self.now, phase))

    def __enter__(self) -> Tracker:
        if self._depth == 0:
            self._saving = watch_saved(self._keep)
            self._saving.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._depth == 0:
            self._saving.__exit__(*error)
            for hook in self._hooks:
                hook.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        if self.phase == "backward" and is_in_place_sum(func, args, self._sole):
            return torch.ops.aten.add_.Tensor(*args)
        body = find_python_body(func)
        if body is None and func.overloadpacket in COMPOSED:
            body = func.decompose
        if body is not None:
            with self:  # so that allocations inside it count
                return body(*args, **kwargs)
        self._maker = str(func)
        exponents = None
        if func is torch.ops.aten.logsumexp.default:  # its kernel takes as much as its input
            with self:
                exponents = torch.empty_like(args[0])
        out = super().__torch_dispatch__(func, types, args, kwargs)
        del exponents
        self.flops += count_flops(func, tuple(args), kwargs, out)
        self.launches += _writes(func)
        if self._maker in CASTS:
            for source in self._allocations_of(args[0]):
                if source.role in ("weights", "casts"):
                    self._set([out], "casts")
        return out

    def _track(self, reftype: Any, tensor: Tensor) -> None:
        before = len(self.allocations)
        super()._track(reftype, tensor)
        for allocation in self.allocations[before:]:
            allocation.shape = tuple(tensor.shape)

    def _update_snap(
        self,
        u_type: _UpdateType,
        winfo: _WeakRefInfo,
        old_mem_consumed: int | None = None,
        old_reftype: Any = None,
    ) -> None:
        """Called by MemTracker for each storage that appears, changes or dies."""
        if winfo.device.type != self.device:
            return
        allocation: Allocation | None = getattr(winfo, "allocation", None)
        if u_type == _UpdateType.REF and allocation is not None:
            allocation.role = ROLES.get(winfo.reftype, allocation.role)
            return
        if allocation is not None:  # it dies, or gets another size
            allocation.died = self.now
            self.now += 1
        if u_type == _UpdateType.DEL:
            return
        size = -(-winfo.mem_consumed // self.grain) * self.grain
        role = ROLES.get(winfo.reftype, "")
        path = self._paths[-1] if self._paths else ""
        allocation = Allocation(size, role, self._maker, path, self.phase, self.now)
        self.now += 1
        self.allocations.append(allocation)
        winfo.allocation = allocation

    def _update_peak_stats(self, peak_state: Any) -> None:
        """Do without MemTracker's statistics, which take time for each operation and module."""

    def _pre_fw_hook(self, module: nn.Module, inputs: Any) -> None:
        name = self._mod_tracker.get_known_fqn(module)
        self._inside.append(module)
        self._paths.append(name.partition(".")[2])

    def _post_fw_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        # A recompute ends midway in a forward, without leaving the modules inside.
        if module in self._inside:
            last = len(self._inside) - 1 - self._inside[::-1].index(module)
            del self._inside[last:], self._paths[last:]

    def _pre_bw_hook(self, module: nn.Module, args: Any) -> None:
        pass

    def _post_bw_hook(self, module: nn.Module, args: Any) -> None:
        pass

    def _allocations_of(self, tensor: Tensor) -> list[Allocation]:
        records = self._WINFO.get(tensor.untyped_storage(), (None, None))[0]
        allocation: Allocation | None = getattr(records, "allocation", None)
        return [] if allocation is None else [allocation]

    def _set(self, tensors: Iterable[Any], role: str) -> None:
        for tensor in tree_leaves(list(tensors)):
            if not isinstance(tensor, Tensor):
                continue
            for allocation in self._allocations_of(tensor):
                allocation.role = allocation.role or role

    def hold(self, tensors: Iterable[Tensor], role: str) -> None:
        """Record tensors that exist before the step."""
        for tensor in tensors:
            self._track(_MemRefType.ACT, tensor)
            self._set([tensor], role)
            if role == "weights" and tensor.requires_grad:
                self._hooks.append(tensor.register_post_accumulate_grad_hook(self._has_gradient))

    def _has_gradient(self, weight: Tensor) -> None:
        self._set([weight.grad], "gradients")

    def _keep(self, tensor: Tensor) -> None:
        """Called with each tensor that autograd saves."""
        if not self._allocations_of(tensor) and tensor.layout == torch.strided:
            self._track(_MemRefType.ACT, tensor)
        for allocation in self._allocations_of(tensor):
            allocation.saved = True


def _writes(func: Any) -> bool:
    """Return whether an operation computes: views and empty tensors launch nothing."""
    aliases = [result.alias_info for result in func._schema.returns]
    is_view = all(alias is not None and not alias.is_write for alias in aliases)
    return not is_view and "empty" not in func.__name__


# Gradients that reach one tensor on two ways are added.  Autograd adds in place if nothing else
# holds the first gradient.  Under a dispatch mode, or with fake tensors, it always makes a third
# tensor, which a real step does not have.  Reference counts tell who holds a tensor; a small
# backward pass with a known answer tells which counts mean "nobody else".

_ENGINE = "_engine_run_backward"  # in torch/autograd/graph.py, which calls the engine
# Files that run between the engine and a mode: this package, and what calls modes for torch.
_MACHINERY = ("/patchgen/training/memory/", "_dynamo", "_compile.py", "<")


def is_in_place_sum(func: Any, args: Sequence[Any], alone: tuple[int, int]) -> bool:
    """Return whether `func` is autograd's sum of two gradients that overwrites the first.

    Call it inside `__torch_dispatch__`, on arguments that nothing else has got hold of; `alone` are
    the counts of `sole_counts`.
    """
    if func is not torch.ops.aten.add.Tensor or not _called_by_engine():
        return False
    first, second = args[:2]
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return False
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return _counts(first) == alone


def _called_by_engine() -> bool:
    """Return whether the innermost code that is not part of a mode is autograd's engine."""
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        if not any(part in frame.f_code.co_filename for part in _MACHINERY):
            return frame.f_code.co_name == _ENGINE
    return False


def _counts(tensor: Tensor) -> tuple[int, int]:
    """Return how often the tensor is referenced, and how often its storage."""
    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


@functools.cache
def sole_counts() -> tuple[int, int]:
    """Return the counts of a fake gradient that only autograd holds, as a mode sees it."""
    counts: list[tuple[int, int]] = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.ops.aten.add.Tensor:
                counts.append(_look(args))
            return func(*args, **(kwargs or {}))

    with _disable_current_modes(), torch.enable_grad(), FakeTensorMode():
        twice = torch.ones(3, requires_grad=True) * 2
        ways = twice.sin(), twice.cos()
        with Look():
            torch.autograd.backward(ways, [torch.ones(3), torch.ones(3)])
    return counts[0]


def _look(args: Sequence[Any]) -> tuple[int, int]:
    """Return the counts, at the same call depth as in `is_in_place_sum`."""
    first, _ = args[:2]
    return _counts(first)
