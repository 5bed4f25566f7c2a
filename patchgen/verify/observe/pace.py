"""Count what decides a variant's speed: attention calls, waits for the device, wide products.

The numbers can be right and the fast path lost: one attention call for each text instead of each
layer, a length read back from the device, a product in float32 under autocast, a graph for each
length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.fx import GraphModule
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count
from transformers import PreTrainedModel

from patchgen.verify.observe.custom_ops import find_python_body

# Operations, by torch's names, that need a tensor's values before the next one can be launched.
WAITS = frozenset(
    {
        "aten._local_scalar_dense",
        "aten.nonzero",
        "aten.masked_select",
        "aten.equal",
        "aten.is_nonzero",
    }
)
UNIQUE = "aten._unique"
BY_INDEX = frozenset(
    {"aten.index", "aten.index_put", "aten.index_put_"}
)  # by a mask of bools: as many as are True
CPU_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
CALLS = frozenset({"tolist", "numpy"})  # these dispatch no operation


@dataclass(slots=True)
class Pace:
    """The counts of one step."""

    attentions: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    operations: int = 0  # those inside operators written in Python too
    products: int = 0
    flops: int = 0  # of products
    wide_flops: int = 0  # of those whose factors are float32

    @property
    def waited(self) -> int:
        return self.waits.total()


@contextmanager
def count_fast_path() -> Iterator[Pace]:
    """A context for a step; gives its `Pace`."""
    pace = Pace()
    with _narrow_math(), _Calls(pace), _Dispatched(pace):
        yield pace


@contextmanager
def _narrow_math() -> Iterator[None]:
    """Let SDPA's plain backend compute in narrow dtypes.

    A CPU takes it for a learned bias, and it would cast to float32; a GPU has a kernel for that.
    """
    allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)


class _Calls(TorchFunctionMode):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        self.pace.attentions += func is F.scaled_dot_product_attention
        if name in CALLS:
            self.pace.waits[name] += 1
        return func(*args, **(kwargs or {}))


class _Dispatched(TorchDispatchMode):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with self:
            inside = _run_inside(func, args, kwargs or {})
        if inside is not NotImplemented:
            return inside
        name = str(func.overloadpacket)
        if name in WAITS or name.startswith(UNIQUE) or (name in BY_INDEX and _by_mask(args[1])):
            self.pace.waits[name] += 1
        self.pace.operations += 1
        out = func(*args, **(kwargs or {}))
        flops = _count_flops(func, args, kwargs or {}, out)
        self.pace.products += flops > 0
        self.pace.flops += flops
        factors = [each for each in args if isinstance(each, Tensor)][:2]
        if all(each.dtype == torch.float32 for each in factors):
            self.pace.wide_flops += flops
        return out


def _run_inside(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator's body, if it is written in Python or composed of others.

    Below autograd, where such a body runs, `linear` is not taken apart by torch.
    """
    body = find_python_body(func)
    if body is not None:
        return body(*args, **kwargs)
    if func.overloadpacket in flop_registry:
        return NotImplemented
    return func.decompose(*args, **kwargs)


def _count_flops(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int:
    """The FLOPs of a product; 0 for other operations."""
    if func.overloadpacket in flop_registry:
        return int(flop_registry[func.overloadpacket](*args, **kwargs, out_val=out))
    # A CPU has an attention of its own, which torch's counter does not know.
    name = func.overloadpacket.__name__
    if name == CPU_ATTENTION:
        return int(sdpa_flop_count(*(each.shape for each in args[:3])))
    if name == f"{CPU_ATTENTION}_backward":
        return int(sdpa_backward_flop_count(*(each.shape for each in args[:4])))
    return 0


def _by_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)


# --- compiled


@dataclass(slots=True)
class Compiled:
    """What torch.compile made of a model over several lengths."""

    graphs: int = 0  # those of recompilations too
    breaks: int = 0
    reasons: frozenset[str] = frozenset()  # of the breaks
    attentions: int = 0
    masked: int = 0  # attentions that were given a mask

    def __str__(self) -> str:
        masked = f"{self.masked} of {self.attentions} attentions with a mask"
        return f"{self.graphs} graphs, {self.breaks} breaks, {masked}"


def count_compiled(model: PreTrainedModel, steps: Sequence[Callable[[], Any]]) -> Compiled:
    """What torch compiles of `model` in `steps`, which call it, with a backend that only counts."""
    found = Compiled()

    def count(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        found.graphs += 1
        for node in graph.graph.nodes:
            if node.target is F.scaled_dot_product_attention:
                mask = node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None)
                found.attentions += 1
                found.masked += mask is not None
        return graph.forward

    torch._dynamo.reset()
    counters.clear()
    model.compile(backend=count)
    try:
        for step in steps:
            step()
    finally:
        found.breaks = sum(counters["graph_break"].values())
        found.reasons = frozenset(counters["graph_break"])
        model._compiled_call_impl = None
        torch._dynamo.reset()
    return found
