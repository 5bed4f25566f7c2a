"""What one training step really ran, so that a variant cannot pass by doing nothing.

Torch functions are counted where Python calls them, kernels where torch dispatches them, in the
backward pass too.  What autograd saves is counted by storage, without parameters.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from patchgen.verifying.observe.recorder import Args, Given, Listener, count_flops, listening

_SOFTMAXES = frozenset(
    {F.softmax, torch.softmax, Tensor.softmax, F.log_softmax, torch.log_softmax, Tensor.log_softmax}
)
# What autograd calls a product of two activations, and one with a weight.
_PRODUCTS = ("BmmBackward", "BaddbmmBackward")
_PROJECTIONS = ("AddmmBackward", "MmBackward", "LinearBackward", "ConvolutionBackward")
Shape = tuple[int, ...]
Mask = Literal["none", "causal", "bool", "float"]


@dataclass(frozen=True, slots=True)
class SdpaCall:
    query: Shape
    key: Shape
    mask: Mask
    native_gqa: bool
    scores_std: float  # over all pairs, masked or not
    values_std: float  # the largest over keys


@dataclass(slots=True)
class Trace(Listener):
    sdpa: list[SdpaCall] = field(default_factory=list)
    softmaxes: list[Shape] = field(default_factory=list)  # the shape of each, gates left out
    # The classes that call SDPA, and the class of each softmax.
    with_sdpa: set[str] = field(default_factory=set)
    with_softmax: list[str] = field(default_factory=list)
    functions: Counter[str] = field(default_factory=Counter)  # every call, by bare name

    def softmaxes_over(self, *keys: int) -> int:
        """Softmaxes of three axes or more over one of `keys`: attention written out."""
        return sum(len(shape) >= 3 and shape[-1] in keys for shape in self.softmaxes)

    def called(self, function: Any, args: Args, given: Given) -> None:
        name = getattr(function, "__name__", str(function))
        self.functions[name] += 1
        before = len(self.softmaxes)
        if function is F.scaled_dot_product_attention:
            self.sdpa.append(sdpa_call(*args, **given))
            self.with_sdpa.add(_calling_class())
        elif function in _SOFTMAXES:
            scores = args[0] if args else given["input"]
            if not is_projected(scores):
                shape = tuple(scores.shape)
                self.softmaxes.append(shape)
        elif function is F.multi_head_attention_forward and given.get("need_weights", True):
            # A composition of torch's own, whose inner calls are not recorded.
            query = args[0]
            key = args[1]
            heads = args[4]
            shape = (query.shape[1] * heads, query.shape[0], key.shape[0])
            self.softmaxes.append(shape)
        if len(self.softmaxes) > before:
            self.with_softmax.append(_calling_class())


def _calling_class() -> str:
    """The class of the innermost module that runs; those of torch belong to whoever holds them."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame, module = frame.f_back, frame.f_locals.get("self")
        if isinstance(module, nn.Module) and not type(module).__module__.startswith("torch."):
            return type(module).__name__
    return ""


def is_projected(scores: Tensor) -> bool:
    """Whether `scores` are one projection of some states: a gate's, and of no queries with keys."""
    waiting = [scores.grad_fn]
    met = set()
    projections = 0
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        kind = node.name()
        if kind.startswith(_PRODUCTS):
            return False
        if kind.startswith(_PROJECTIONS):
            projections += 1
        else:
            waiting += [before for before, _ in node.next_functions]
    return projections == 1


def sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> SdpaCall:
    mask: Mask = "causal" if is_causal else "none"
    if attn_mask is not None:
        mask = "bool" if attn_mask.dtype == torch.bool else "float"
    # Neither autograd nor a recorder of kernels sees these computations.
    with torch.no_grad(), _disable_current_modes():
        heads = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ heads.transpose(-1, -2) * scale
        deviation = float(scores.double().std()) if scores.numel() > 1 else 0.0
        spread = float(value.double().std(-2, correction=0).max())
    return SdpaCall(tuple(query.shape), tuple(key.shape), mask, enable_gqa, deviation, spread)


@dataclass(frozen=True, slots=True)
class Saved:
    """One storage that autograd keeps for the backward pass."""

    shape: Shape  # of the first tensor on it that was saved
    dtype: torch.dtype
    bytes: int


class SavedStorages(Listener):
    """Each storage that is saved in a step of `model`, without those of its parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = {_address(parameter) for parameter in model.parameters()}
        self.held: dict[int, torch.UntypedStorage] = {}  # alive, so that no address is used twice
        self.storages: list[Saved] = []

    def saved(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address not in self.parameters and address not in self.held:
            storage = self.held[address] = tensor.untyped_storage()
            self.storages.append(Saved(tuple(tensor.shape), tensor.dtype, storage.nbytes()))


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass(slots=True)
class Evidence(Listener):
    """What one model ran in one step: filled by `gather_evidence`."""

    trace: Trace = field(default_factory=Trace)
    # By name: "aten._scaled_dot_product_flash_attention_for_cpu".
    kernels: Counter[str] = field(default_factory=Counter)
    saved_storages: list[Saved] = field(default_factory=list)
    # By class name: the shape of the first tensor given to each forward, in the order of the calls.
    forwards: dict[str, list[Shape]] = field(default_factory=dict)
    # Of each forward: its module, behind those that this one lies in, outermost first.
    paths: list[tuple[nn.Module, ...]] = field(default_factory=list)

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        self.kernels[str(operation.overloadpacket)] += 1

    @property
    def saved_bytes(self) -> int:
        return sum(each.bytes for each in self.saved_storages)

    def saves_less_than(self, parent: Evidence) -> Iterator[str]:
        """A sentence that says it does not, or nothing."""
        if self.saved_bytes >= parent.saved_bytes:
            yield f"{self.saved_bytes} bytes were saved where the parent saves {parent.saved_bytes}"

    def runs_of(self, class_name: str) -> int:
        """How many times a module of this class ran its forward, recomputation included."""
        return len(self.forwards.get(class_name, ()))

    def note_forward(self, path: tuple[nn.Module, ...], given: Iterable[Any]) -> None:
        shapes = (tuple(each.shape) for each in given if isinstance(each, Tensor))
        self.forwards.setdefault(type(path[-1]).__name__, []).append(next(shapes, ()))
        self.paths.append(path)


@contextmanager
def gather_evidence(model: nn.Module) -> Iterator[Evidence]:
    """A context for one forward and backward pass of `model`; gives the `Evidence`."""
    evidence = Evidence()
    saved = SavedStorages(model)
    evidence.saved_storages = saved.storages
    modules = dict(model.named_modules())
    get_head = getattr(model, "get_output_embeddings", None)
    # The head gets no hook of its own: a loss without logits calls a head that has hooks.
    head = get_head() if get_head is not None else None
    path_of_head = next((_path(name, modules) for name in modules if modules[name] is head), None)

    def hook(path: tuple[nn.Module, ...]) -> Callable[[nn.Module, Any, Mapping[str, Any]], None]:
        return lambda module, args, given: evidence.note_forward(path, (*args, *given.values()))

    def note_head(module: nn.Module, args: Any) -> None:
        if path_of_head is not None and module is head:
            evidence.note_forward(path_of_head, args)

    hooks = [
        module.register_forward_pre_hook(hook(_path(name, modules)), with_kwargs=True)
        for name, module in modules.items()
        if module is not head
    ]
    hooks.append(register_module_forward_pre_hook(note_head))
    try:
        with listening(evidence, evidence.trace, saved):
            yield evidence
    finally:
        for handle in hooks:
            handle.remove()


def _path(name: str, modules: Mapping[str, nn.Module]) -> tuple[nn.Module, ...]:
    steps = name.split(".")
    return tuple(modules[".".join(steps[:n])] for n in range(len(steps) + 1 if name else 1))


@dataclass(slots=True)
class Work(Listener):
    """The matrix products of a step, those inside operators written in Python too."""

    looks_inside: ClassVar[bool] = True
    products: int = 0
    flops: int = 0
    wide_flops: int = 0  # of those whose factors are float32
    grouped_flops: int = 0  # of these, the grouped ones: autocast leaves them as they are

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        flops = count_flops(operation, args, given, out)
        self.products += flops > 0
        self.flops += flops
        factors = [each for each in args if isinstance(each, Tensor)][:2]
        if all(each.dtype == torch.float32 for each in factors):
            self.wide_flops += flops
            if operation.overloadpacket.__name__ == "_grouped_mm":
                self.grouped_flops += flops


@dataclass(slots=True)
class Compiled:
    graphs: int = 0  # those of recompilations too
    operations: int = 0
    # The reasons of graph breaks without names, and each of them with names.
    breaks: dict[str, str] = field(default_factory=dict)


@contextmanager
def compiling(model: PreTrainedModel, backend: str) -> Iterator[Compiled]:
    """A context in which `model` is compiled.  It yields a record that is filled at its end."""
    found = Compiled()
    torch._dynamo.reset()
    counters.clear()
    model.compile(backend=backend, dynamic=False)
    try:
        yield found
    finally:
        found.graphs = counters["stats"]["unique_graphs"]
        found.operations = counters["stats"]["calls_captured"]
        # The first line is the kind; the lines below name the function, the model and a remedy.
        for kind, *rest in (reason.split("\n") for reason in counters["graph_break"]):
            found.breaks[kind] = " ".join([kind, *rest[:1]])
        model._compiled_call_impl = None
        torch._dynamo.reset()
