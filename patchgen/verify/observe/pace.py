"""Count what decides a variant's speed: attention calls, waits for the device, wide products.

The numbers can be right and the fast path lost: one attention call for each text instead of each
layer, a length read back from the device, a product in float32 under autocast, a graph for each
length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.fx import GraphModule
from torch.nn import functional as F
from transformers import PreTrainedModel

from patchgen.verify.observe.recorder import Args, Given, Listener, count_flops, listening

# Operations, by torch's names, that need a tensor's values before the next one can be launched.
WAITS = frozenset(
    f"aten.{name}"
    for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero")
)
UNIQUE = "aten._unique"
# By a mask of bools: as many as are True.
BY_INDEX = frozenset({"aten.index", "aten.index_put", "aten.index_put_"})
CALLS = frozenset({"tolist", "numpy"})  # these dispatch no operation


@dataclass(slots=True)
class Pace(Listener):
    """The counts of one step."""

    looks_inside: ClassVar[bool] = True
    attentions: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    operations: int = 0  # those inside operators written in Python too
    products: int = 0
    flops: int = 0  # of products
    wide_flops: int = 0  # of those whose factors are float32

    @property
    def waited(self) -> int:
        return self.waits.total()

    def called(self, function: Any, args: Args, given: Given) -> None:
        name = getattr(function, "__name__", "")
        self.attentions += function is F.scaled_dot_product_attention
        if name in CALLS:
            self.waits[name] += 1

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        name = str(operation.overloadpacket)
        if name in WAITS or name.startswith(UNIQUE) or (name in BY_INDEX and _by_mask(args[1])):
            self.waits[name] += 1
        flops = count_flops(operation, args, given, out)
        self.operations += 1
        self.products += flops > 0
        self.flops += flops
        factors = [each for each in args if isinstance(each, Tensor)][:2]
        if all(each.dtype == torch.float32 for each in factors):
            self.wide_flops += flops


def _by_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)


@contextmanager
def count_fast_path() -> Iterator[Pace]:
    """A context for a step; gives its `Pace`.

    SDPA's plain backend may compute in narrow dtypes meanwhile: a CPU takes it for a learned bias,
    and it would cast to float32, where a GPU has a kernel.
    """
    allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with listening(pace := Pace()):
            yield pace
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)


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
    compiled = Compiled()

    def count(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled.graphs += 1
        for node in graph.graph.nodes:
            if node.target is F.scaled_dot_product_attention:
                mask = node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None)
                compiled.attentions += 1
                compiled.masked += mask is not None
        return graph.forward

    torch._dynamo.reset()
    counters.clear()
    model.compile(backend=count)
    try:
        for step in steps:
            step()
    finally:
        compiled.breaks = sum(counters["graph_break"].values())
        compiled.reasons = frozenset(counters["graph_break"])
        model._compiled_call_impl = None
        torch._dynamo.reset()
    return compiled
