"""Record what one training step really ran, so that a variant cannot pass by doing nothing.

Torch functions are counted where Python calls them (`trace`), kernels where torch dispatches them,
in the backward pass too.  What autograd saves is counted by storage, without parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from patchgen.verify.observe.saved import Saved, record_saved
from patchgen.verify.observe.trace import Trace, traced


@dataclass(slots=True)
class Evidence:
    """What one model ran in one step: filled by `gather_evidence`."""

    trace: Trace = field(default_factory=Trace)
    kernels: Counter[str] = field(
        default_factory=Counter
    )  # "aten._scaled_dot_product_flash_attention_for_cpu"
    dtypes: set[torch.dtype] = field(default_factory=set)  # floating ones that kernels gave
    saved: list[Saved] = field(default_factory=list)
    # By class name: the shape of the first tensor given to each forward, in the order of the calls.
    forwards: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    # Of each forward: its module, behind those that this one lies in, outermost first.
    paths: list[tuple[nn.Module, ...]] = field(default_factory=list)

    @property
    def saved_bytes(self) -> int:
        """The bytes of all storages that autograd kept."""
        return sum(each.bytes for each in self.saved)

    @property
    def largest_saved(self) -> Saved | None:
        return max(self.saved, key=lambda each: each.bytes, default=None)

    @property
    def functions(self) -> Counter[str]:
        """Calls of torch functions by bare name, such as "linear" or "softmax"."""
        return self.trace.functions

    def ran(self, class_name: str) -> int:
        """How many times a module of this class ran its forward, recomputation included."""
        return len(self.forwards.get(class_name, ()))

    def ran_inside(self, class_name: str, owners: frozenset[str]) -> int:
        """How many times such a module ran inside a module of `owners` that got a gradient."""
        return sum(
            type(path[-1]).__name__ == class_name
            and any(type(owner).__name__ in owners and has_gradient(owner) for owner in path[:-1])
            for path in self.paths
        )

    def attentions(self, *keys: int) -> int:
        """Attentions computed, by SDPA or by hand, over as many keys as one of `keys`."""
        by_sdpa = sum(call.key[-2] in keys for call in self.trace.sdpa)
        return by_sdpa + self.trace.softmaxes_over(*keys)


@contextmanager
def gather_evidence(model: nn.Module) -> Iterator[Evidence]:
    """A context for one forward and backward pass of `model`; gives the `Evidence`."""
    evidence = Evidence()
    modules = dict(model.named_modules())
    head = _head(model)
    hooks = [
        module.register_forward_pre_hook(_note(evidence, _path(name, modules)), with_kwargs=True)
        for name, module in modules.items()
        if module is not head
    ]
    notes = {
        id(module): _note(evidence, _path(name, modules))
        for name, module in modules.items()
        if module is head
    }

    def note_head(module: nn.Module, args: Any) -> None:
        if id(module) in notes:
            notes[id(module)](module, args, {})

    hooks.append(register_module_forward_pre_hook(note_head))
    watch = _Dispatched(evidence)
    try:
        with (
            record_saved(model) as evidence.saved,
            watch,
            traced() as evidence.trace,
        ):
            yield evidence
    finally:
        for hook in hooks:
            hook.remove()


def _head(model: nn.Module) -> nn.Module | None:
    """The module that makes the logits.

    It gets no hook of its own: a loss without logits calls a head that has hooks.
    """
    get = getattr(model, "get_output_embeddings", None)
    head = None if get is None else get()
    return head if isinstance(head, nn.Module) else None


def _path(name: str, modules: Mapping[str, nn.Module]) -> tuple[nn.Module, ...]:
    """The module of that name, behind those that it lies in."""
    steps = name.split(".")
    return tuple(modules[".".join(steps[:n])] for n in range(len(steps) + 1 if name else 1))


def has_gradient(module: nn.Module) -> bool:
    """Whether a parameter of the module got a gradient."""
    return any(parameter.grad is not None for parameter in module.parameters())


def _note(evidence: Evidence, path: tuple[nn.Module, ...]) -> Callable[..., None]:
    def hook(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        first = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
        evidence.forwards.setdefault(type(module).__name__, []).append(
            () if first is None else tuple(first.shape)
        )
        evidence.paths.append(path)

    return hook


class _Dispatched(TorchDispatchMode):
    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.evidence.kernels[str(func.overloadpacket)] += 1
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self.evidence.dtypes.add(tensor.dtype)
        return out
