"""norm: each RMSNorm is one call of torch's, and LayerNorm works in the dtype of autocast.

Errors in an RMSNorm are planted around `rms_norm`, the function of the part that makes the call.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.differences import REFORMULATED, REORDERED
from patchgen.verify.observe.evidence import Evidence, has_gradient
from patchgen.verify.parts.part_check import (
    PairFacts,
    PartCheck,
    Plant,
    PlantedError,
    Route,
    Scenario,
    errors,
    replaced,
)

Norm = Callable[..., Tensor]
# Leaving out the usual epsilon, a millionth, would not show.
EPSILON = 2.0
AUTOCAST = Scenario(train=True, autocast=True)
LOW_PRECISION = "LowPrecisionLayerNorm"


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's norms, with an epsilon that matters; rounded once or twice in narrow dtypes."""
    given = {"rms_norm_eps": EPSILON} if hasattr(parent_class.config_class, "rms_norm_eps") else {}
    eager = {**given, "attn_implementation": "eager"}
    bound = REORDERED if given else REFORMULATED
    return Route("its norms", bound, given, given), Route(
        "its norms under eager", bound, eager, eager
    )


def calls_rms_norm(facts: PairFacts) -> bool:
    return ".rms_norm(" in inspect.getsource(facts.module)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """One `rms_norm` in place of each root mean square that the part replaces; autocast saves less.

    Norms that it leaves as they are, such as gated ones, are written out in both.
    """
    ours, theirs = count_row_bytes(variant), count_row_bytes(parent)
    fewer = ours < theirs
    saved = f"{ours} bytes of rows were saved where the parent saves {theirs}"
    ran = [path[-1] for path in variant.paths]
    classes = find_rms_norms(facts)
    rms_norms = sum(type(module) in classes for module in ran)
    layer_norms = [module for module in ran if type(module).__name__ == LOW_PRECISION]
    if rms_norms:
        # Some parents have an `nn.RMSNorm` too, which calls the same function.
        calls = variant.functions["rms_norm"] - parent.functions["rms_norm"]
        if calls != rms_norms:
            yield f"{calls} calls of rms_norm for {rms_norms} norms"
        by_hand, others = variant.functions["rsqrt"], parent.functions["rsqrt"] - rms_norms
        if by_hand != others:
            yield f"{by_hand} norms are written out, where {others} stay as they are"
        # Elsewhere torch composes it, and keeps what the parent keeps.
        if variant.kernels["aten._fused_rms_norm"] and not fewer:
            yield saved
    # A norm without a gradient, as in an indexer that only chooses, keeps nothing.
    if any(has_gradient(module) for module in layer_norms) and not fewer:
        yield saved
    if not rms_norms and not layer_norms:
        yield "no norm of the part ran"


def count_row_bytes(evidence: Evidence) -> int:
    """The bytes that autograd kept, without vectors.

    A weight that is cast is one.  It is small beside the rows of a real batch, not beside the few
    of a tiny model.
    """
    return sum(each.bytes for each in evidence.saved_storages if len(each.shape) > 1)


def find_rms_norms(facts: PairFacts) -> frozenset[type]:
    """The classes of the file whose forward calls `rms_norm` and the parent's does not."""
    parent = sys.modules[facts.parent_class.__module__]
    found = set()
    for name, value in vars(facts.module).items():
        if inspect.isclass(value) and value.__module__ == facts.module.__name__:
            theirs = getattr(parent, name, None)
            if _calls_rms_norm(value) and (theirs is None or not _calls_rms_norm(theirs)):
                found.add(value)
    return frozenset(found)


def _calls_rms_norm(one: type) -> bool:
    return ".rms_norm(" in inspect.getsource(one)


def around_rms_norm(wrong: Norm) -> Plant:
    """For `PlantedError.apply`: each call of torch's `rms_norm` becomes `wrong(rms_norm, ...)`."""
    return lambda model: replaced(
        nn.functional,
        "rms_norm",
        lambda norm: lambda x, shape, weight, eps: wrong(norm, x, shape, weight, eps),
    )


def no_one(norm: Norm, x: Tensor, shape: Any, weight: Tensor, eps: float) -> Tensor:
    return norm(x, shape, weight - 1.0, eps)


def no_eps(norm: Norm, x: Tensor, shape: Any, weight: Tensor | None, eps: float) -> Tensor:
    return norm(x, shape, weight, 0.0)


def centred(norm: Norm, x: Tensor, shape: Any, weight: Tensor | None, eps: float) -> Tensor:
    return norm(x - x.mean(-1, keepdim=True), shape, weight, eps)


def no_gradient(norm: Norm, x: Tensor, shape: Any, weight: Tensor | None, eps: float) -> Tensor:
    """The epsilon of the root mean square is left out."""
    scale = norm(x.detach(), shape, None, eps) / torch.where(x == 0, 1, x.detach())
    return x * scale if weight is None else x * scale * weight


def no_bias(forward: Norm, norm: Any, x: Tensor) -> Tensor:
    out = forward(norm, x)
    return out if norm.bias is None else out - norm.bias.to(out.dtype)


def no_weight(forward: Norm, norm: Any, x: Tensor) -> Tensor:
    out = forward(norm, x)
    if norm.weight is None:
        return out
    bias = 0.0 if norm.bias is None else norm.bias.to(out.dtype)
    return (out - bias) / norm.weight.to(out.dtype) + bias


def has_epsilon(facts: PairFacts) -> bool:
    return calls_rms_norm(facts) and hasattr(type(facts.config), "rms_norm_eps")


def adds_one(facts: PairFacts) -> bool:
    text = inspect.getsource(sys.modules[facts.parent_class.__module__])
    return calls_rms_norm(facts) and re.search(r"\b1(\.0)? \+ self\.weight", text) is not None


PART_CHECK = PartCheck(
    part="norm",
    says="each RMSNorm is one call of torch's, and each LayerNorm works in the dtype of autocast",
    routes=routes,
    effect=effect,
    effect_scenario=AUTOCAST,
    own_dtypes=lambda scenario: scenario.autocast,  # the residual stream behind a LayerNorm
    planted_errors=(
        *(
            PlantedError(name, says, around_rms_norm(wrong), fits=fits)
            for name, says, wrong, fits in (
                ("added one forgotten", "a norm lacks its added one", no_one, adds_one),
                ("epsilon forgotten", "nothing is added to mean squares", no_eps, has_epsilon),
                ("mean taken away", "rows are centred, as in LayerNorm", centred, calls_rms_norm),
                ("scale detached", "the root has no gradient", no_gradient, calls_rms_norm),
            )
        ),
        *errors(
            "forward",
            ("bias dropped", "LayerNorm lacks its bias under autocast", no_bias),
            scenario=AUTOCAST,
            within=LOW_PRECISION,
        ),
        *errors(
            "forward",
            ("weight dropped", "LayerNorm lacks its weight", no_weight),
            within=LOW_PRECISION,
        ),
    ),
)
