"""Tell listeners what torch does: functions that Python calls, operations that run, tensors saved.

    with listening(count := Count()):  # a `Listener`; only what it overrides is recorded
        step()

`compute_in_float64()` computes all in float64, also what a model deliberately computes in float32:
Llama its norm, its softmax and its rotary embedding.  Two float64 models that differ in the last
bit before a norm would otherwise differ by a float32 rounding behind it.  It hides a difference
between casts to float32, which the comparison in bfloat16 shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch._library.custom_ops import CustomOpDef, _maybe_get_opdef
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

Args = tuple[Any, ...]
Given = Mapping[str, Any]
_CPU_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


class Listener:
    """What a recorder tells.  `looks_inside`: operators count by what their bodies run."""

    looks_inside: ClassVar[bool] = False

    def called(self, function: Any, args: Args, given: Given) -> None:
        """Python calls a function of torch; not in a backward pass, where such modes are off."""

    def begins(self, operation: Any, args: Args, given: Given) -> None:
        """An operation is about to run, in a forward or a backward pass."""

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        """An operation has run."""

    def saved(self, tensor: Tensor) -> None:
        """Autograd keeps a tensor for the backward pass."""


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """A context in which each listener is told what torch does."""
    functions, begins, ran, saved = (
        [one for one in listeners if getattr(type(one), name) is not getattr(Listener, name)]
        for name in ("called", "begins", "ran", "saved")
    )
    with ExitStack() as stack:
        for listener in saved:
            stack.enter_context(watch_saved(listener.saved))
        if begins or ran:
            looks_inside = any(one.looks_inside for one in listeners)
            stack.enter_context(_Operations(begins, ran, looks_inside))
        if functions:
            stack.enter_context(_Functions(functions))
        yield


class _Functions(TorchFunctionMode):
    def __init__(self, listeners: list[Listener]) -> None:
        super().__init__()
        self.listeners = listeners

    def __torch_function__(self, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        for listener in self.listeners:
            listener.called(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, begins: list[Listener], ran: list[Listener], looks_inside: bool) -> None:
        super().__init__()
        self.begins = begins
        self.ran = ran
        self.looks_inside = looks_inside

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if self.looks_inside:
            with self:
                inside = _run_inside(func, args, given)
            if inside is not NotImplemented:
                return inside
        for listener in self.begins:
            listener.begins(func, args, given)
        out = func(*args, **given)
        for listener in self.ran:
            listener.ran(func, args, given, out)
        return out


def _run_inside(operation: Any, args: Args, given: Given) -> Any:
    """Run an operator's body, if it is written in Python or composed of others."""
    body = find_python_body(operation)
    if body is not None:
        return body(*args, **given)
    if operation.overloadpacket in flop_registry:
        return NotImplemented
    return operation.decompose(*args, **given)


def find_python_body(operation: Any) -> Callable[..., Any] | None:
    """The Python function that an operator runs (`torch.library.custom_op`); None for others."""
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace == "aten":
        return None
    operator: CustomOpDef | None = _maybe_get_opdef(operation)
    return None if operator is None else operator._init_fn


@contextmanager
def watch_saved(note: Callable[[Tensor], object]) -> Iterator[None]:
    def pack(tensor: Tensor) -> Tensor:
        note(tensor)
        # An output that is saved with its own graph would keep itself alive.
        return tensor.detach() if tensor.grad_fn is not None else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


def count_flops(operation: Any, args: Args, given: Given, out: Any) -> int:
    """The FLOPs of a product or an attention; 0 for other operations."""
    operator = operation.overloadpacket
    if operator in flop_registry:
        # torch's counter takes the dtype of a wider product for a shape.
        operands = [each for each in args if not isinstance(each, torch.dtype)]
        return int(flop_registry[operator](*operands, **given, out_val=out))
    name = operator.__name__
    # A CPU has an attention of its own, which torch's counter does not know.
    if name == _CPU_ATTENTION:
        shapes = [tensor.shape for tensor in args[:3]]
        return int(sdpa_flop_count(*shapes))
    if name == f"{_CPU_ATTENTION}_backward":
        shapes = [tensor.shape for tensor in args[:4]]
        return int(sdpa_backward_flop_count(*shapes))
    if name != "_grouped_mm":
        return 0
    left, right = args[:2]
    width = right.shape[-1]
    ends = args[2] if len(args) > 2 else given["offs"]
    if isinstance(ends, FakeTensor):  # which has no value
        return int(2 * left.numel() * width)
    # Rows behind the last end are not computed.
    inner = left.shape[-1] if right.dim() == 3 else left.shape[-2]
    rows = int(ends[-1])
    return 2 * rows * inner * width


@contextmanager
def compute_in_float64() -> Iterator[None]:
    """A context in which float32 becomes float64, also as the default dtype."""
    default = torch.get_default_dtype()  # what integers become when they are divided
    # Modes are off in the backward pass, where checkpointing runs modules again: each enters a mode
    # of its own then.
    entered: list[tuple[nn.Module, _Wide]] = []

    def enter(module: nn.Module, args: Any) -> None:
        if not any(isinstance(mode, _Wide) for mode in _get_current_function_mode_stack()):
            entered.append((module, _Wide()))
            entered[-1][1].__enter__()

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if entered and entered[-1][0] is module:
            entered.pop()[1].__exit__(None, None, None)

    hooks = (
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    )
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(default)
        for hook in hooks:
            hook.remove()


class _Wide(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        named = {name: _wide(each) for name, each in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(given: Any) -> Any:
    return torch.float64 if given is torch.float32 else given
