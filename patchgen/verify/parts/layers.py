"""Norms and MLPs: the parts `norm`, `fast`, `gelu` and `tiles`.

norm: each RMSNorm is one call of torch's, and each LayerNorm works in the dtype of autocast.
fast: norms are so too, and on CUDA with Liger's kernels also rotation and gate.
gelu: the tanh form of GELU is one operation; the function is the parent's.
tiles: MLPs compute some tokens at a time, and keep the input of each tile alone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.differences import REFORMULATED, REORDERED
from patchgen.verify.observe.evidence import Evidence, has_gradient
from patchgen.verify.parts.part_check import (
    PairFacts,
    PartCheck,
    PlantedError,
    Route,
    Scenario,
    beside_eager,
    errors,
    saves_less,
    wrapped,
)

Norm = Callable[..., Tensor]
# Leaving out the usual epsilon, a millionth, would not show.
EPSILON = 2.0
AUTOCAST = Scenario(train=True, autocast=True)
LOW_PRECISION = "LowPrecisionLayerNorm"


def norm_routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's norms, with an epsilon that matters; rounded once or twice in narrow dtypes."""
    given = {"rms_norm_eps": EPSILON} if hasattr(parent_class.config_class, "rms_norm_eps") else {}
    bound = REORDERED if given else REFORMULATED
    return beside_eager("its norms", bound, given, given)


def norm_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """One `rms_norm` in place of each root mean square that the part replaces; autocast saves less.

    Norms that it leaves as they are, such as gated ones, are written out in both.
    """
    ours, theirs = _count_row_bytes(variant), _count_row_bytes(parent)
    saved = f"{ours} bytes of rows were saved where the parent saves {theirs}"
    ran = [path[-1] for path in variant.paths]
    classes = _find_rms_norms(facts)
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
    # Elsewhere torch composes `rms_norm`, and keeps what the parent keeps; a norm without a
    # gradient, as in an indexer that only chooses, keeps nothing.
    fused = rms_norms and variant.kernels["aten._fused_rms_norm"]
    if (fused or any(map(has_gradient, layer_norms))) and ours >= theirs:
        yield saved
    if not rms_norms and not layer_norms:
        yield "no norm of the part ran"


def _count_row_bytes(evidence: Evidence) -> int:
    """The bytes that autograd kept, without vectors.

    A weight that is cast is one.  It is small beside the rows of a real batch, not beside the few
    of a tiny model.
    """
    return sum(each.bytes for each in evidence.saved_storages if len(each.shape) > 1)


def _find_rms_norms(facts: PairFacts) -> frozenset[type]:
    """The classes of the file whose forward calls `rms_norm` and the parent's does not."""
    theirs = vars(sys.modules[facts.parent_class.__module__])
    return frozenset(
        each
        for name, each in vars(facts.module).items()
        if inspect.isclass(each) and each.__module__ == facts.module.__name__
        if _calls_rms_norm(each) and not (name in theirs and _calls_rms_norm(theirs[name]))
    )


def _calls_rms_norm(one: Any) -> bool:
    return ".rms_norm(" in inspect.getsource(one)


# --- errors in norms


def _centred(norm: Norm, x: Tensor, shape: Any, weight: Any = None, eps: Any = None) -> Tensor:
    return norm(x - x.mean(-1, keepdim=True), shape, weight, eps)


def _no_weight(forward: Norm, norm: Any, x: Tensor) -> Tensor:
    out = forward(norm, x)
    if norm.weight is None:
        return out
    bias = 0.0 if norm.bias is None else norm.bias.to(out.dtype)
    return (out - bias) / norm.weight.to(out.dtype) + bias


def _has_rms_norm(facts: PairFacts) -> bool:
    return _calls_rms_norm(facts.module)


_WEIGHT = ("weight dropped", "LayerNorm lacks its weight", _no_weight)
NORM = PartCheck(
    part="norm",
    routes=norm_routes,
    effect=norm_effect,
    effect_scenario=AUTOCAST,
    own_dtypes=lambda scenario: scenario.autocast,  # the residual stream behind a LayerNorm
    planted_errors=(
        PlantedError(
            "mean taken away",
            "rows are centred",
            # Torch's function, which the part's function `rms_norm` calls.
            lambda model: wrapped(nn.functional, "rms_norm", _centred),
            fits=_has_rms_norm,
        ),
        *errors("forward", _WEIGHT, within=LOW_PRECISION),
    ),
)


FAST = replace(NORM, part="fast")


# --- MLPs


def gelu_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    ours = variant.functions["gelu"] - parent.functions["gelu"]
    theirs = parent.functions["tanh"] - variant.functions["tanh"]
    if ours != theirs or not ours:
        yield f"{ours} GELUs by one operation, where the parent writes out {theirs}"
    yield from saves_less(parent, variant)


@contextmanager
def _no_activation(model: PreTrainedModel) -> Iterator[None]:
    for module in model.modules():
        if type(module).__name__ == "GELUTanh":
            module.act = nn.Identity()
    yield


@contextmanager
def _no_tiles(model: PreTrainedModel) -> Iterator[None]:
    for module in model.modules():
        if hasattr(module, "forward_tile"):
            module.forward_tile = torch.zeros_like
    yield


GELU = PartCheck(
    part="gelu",
    routes=lambda parent_class: beside_eager("its layers", REFORMULATED, {}, {}),
    effect=gelu_effect,
    planted_errors=(PlantedError("activation left out", "an MLP is linear", _no_activation),),
)
TILES = PartCheck(
    part="tiles",
    routes=lambda parent_class: beside_eager("its MLPs", REORDERED, {}, {"mlp_tile_size": 5}),
    effect=lambda parent, variant, facts: saves_less(parent, variant),
    planted_errors=(PlantedError("tiles left out", "an MLP gives zeros", _no_tiles),),
)
