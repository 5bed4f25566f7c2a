"""Norms, MLPs, layers that run again, losses: the parts whose attention is the parent's.

norm: each RMSNorm is one call of torch's, and each LayerNorm works in the dtype of autocast.
kernels: norms are so too, and on CUDA with Liger's kernels also rotation and gate.
gelu: the tanh form of GELU is one operation; the function is the parent's.
tiles: MLPs compute some tokens at a time, and keep the input of each tile alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from torch import nn
from transformers import PreTrainedModel

from patchgen.verifying.differences import REFORMULATED, REORDERED
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.parts.part_check import (
    PairFacts,
    PartCheck,
    Promise,
    Route,
    Scenario,
    beside_eager,
)

# Leaving out the usual epsilon, a millionth, would not show.
EPSILON = 2.0
LOW_PRECISION = "LowPrecisionLayerNorm"
NORMS_ALONE = Promise("bfloat16 norms alone", "norms", "bfloat16")


def norm_routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's norms, with an epsilon that matters; rounded once or twice in narrow dtypes."""
    given = {"rms_norm_eps": EPSILON} if hasattr(parent_class.config_class, "rms_norm_eps") else {}
    bound = REORDERED if given else REFORMULATED
    return beside_eager("its norms", bound, given, given)


def norm_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """One `rms_norm` in place of each root mean square that is no longer written out."""
    calls = variant.trace.functions["rms_norm"] - parent.trace.functions["rms_norm"]
    fewer = parent.trace.functions["rsqrt"] - variant.trace.functions["rsqrt"]
    if calls != fewer:
        yield f"{calls} calls of rms_norm, where {fewer} norms are no longer written out"
    layer_norms = [path[-1] for path in variant.paths if type(path[-1]).__name__ == LOW_PRECISION]
    left = [
        path
        for path in variant.paths
        if type(path[-1]) is nn.LayerNorm and _owner_of(path) == facts.module.__name__
    ]
    if layer_norms and left:
        yield f"{len(left)} LayerNorms are as they were beside {len(layer_norms)} of the part"
    if not calls and not layer_norms:
        yield "no norm of the part ran"
    # Elsewhere torch composes `rms_norm`, and keeps what the parent keeps; a norm without a
    # gradient, as in an indexer that only chooses, keeps nothing.
    fused = calls and variant.kernels["aten._fused_rms_norm"]
    # Without vectors: a weight that is cast is one, small beside the rows of a real batch alone.
    ours, theirs = (
        sum(each.bytes for each in side.saved_storages if len(each.shape) > 1)
        for side in (variant, parent)
    )
    learn = any(each.grad is not None for norm in layer_norms for each in norm.parameters())
    if (fused or learn) and ours >= theirs:
        yield f"{ours} bytes of rows were saved where the parent saves {theirs}"


def _owner_of(path: Sequence[nn.Module]) -> str:
    """The module of the class that has the last of `path`: AutoModel's towers are other files'."""
    for layer in reversed(path[:-1]):
        module = type(layer).__module__
        if not module.startswith("torch."):
            return module
    return ""


def gelu_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    ours = variant.trace.functions["gelu"] - parent.trace.functions["gelu"]
    theirs = parent.trace.functions["tanh"] - variant.trace.functions["tanh"]
    if ours != theirs or not ours:
        yield f"{ours} GELUs by one operation, where the parent writes out {theirs}"
    yield from variant.saves_less_than(parent)


NORM = PartCheck(
    part="norm",
    routes=norm_routes,
    effect=norm_effect,
    effect_scenario=Scenario(train=True, autocast=True),
    own_dtypes=lambda scenario: scenario.autocast,  # the residual stream behind a LayerNorm
    promises=(NORMS_ALONE,),
)


def kernels_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Norms are those of torch on a CPU; there, rotations and gates are the parent's."""
    if "rms_norm(" in inspect.getsource(facts.module):
        yield from norm_effect(parent, variant, facts)


KERNELS = replace(NORM, part="kernels", effect=kernels_effect)
GELU = PartCheck(
    part="gelu",
    routes=lambda parent_class: beside_eager("its layers", REFORMULATED, {}, {}),
    effect=gelu_effect,
)
TILES = PartCheck(
    part="tiles",
    routes=lambda parent_class: beside_eager("its MLPs", REORDERED, {}, {"mlp_tile_size": 5}),
    effect=lambda parent, variant, facts: variant.saves_less_than(parent),
)


# --- the loss of a language model without the logits of all tokens
#
# The part works only in training with labels.


def loss_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """No logits are saved, of the head its gradient alone, or it ran on labelled tokens only."""
    words = facts.config.get_text_config().vocab_size
    labels = facts.inputs["labels"]
    if not rows_of(parent, words) >= labels.numel():
        yield "the parent saves no logits either"
    if hasattr(facts.module, "labelled_tokens") and "Causal" not in facts.variant_class.__name__:
        labelled = int((labels != -100).sum())
        shapes = (shape for ran in variant.forwards.values() for shape in ran)
        if not any(len(shape) == 2 and shape[0] == labelled for shape in shapes):
            yield f"no module ran on the {labelled} labelled tokens"
        return
    if saved := rows_of(variant, words):
        yield f"logits of {saved} tokens are saved"
    if held := sum(each.bytes for each in variant.saved_storages if 0 in each.shape):
        yield f"{held} bytes are kept by tensors without elements"
    matrices = [each.shape for each in variant.saved_storages if len(each.shape) == 2]
    as_large = [shape for shape in matrices if shape[0] == words]
    # One is the gradient.
    if len(as_large) > 1 and not any(each.shape == as_large[0] for each in parent.saved_storages):
        yield f"a matrix as large as the head's is saved beside its gradient: {as_large[0]}"


def rows_of(evidence: Evidence, words: int) -> int:
    """The most tokens of which it saves logits; a vector is the gradient of a bias."""
    shapes = (each.shape for each in evidence.saved_storages if len(each.shape) > 1)
    return max((prod(shape[:-1]) for shape in shapes if shape[-1] == words), default=0)


FEW_PLACES = 0.9
LOSS = PartCheck(
    part="loss",
    routes=lambda parent_class: beside_eager("logits", REORDERED, {}, {}),
    effect=loss_effect,
    effect_changes={"loss_chunk_size": 5},
    # Where more tokens have a label than there are places: a loss of some would be silently wrong.
    refuses_a_loss=lambda changes: (changes.get("max_labelled_fraction") or 1) < FEW_PLACES,
    promises=(
        # A narrow dtype shows what is not summed in float32.
        Promise(
            "bfloat16 loss beside logits",
            "loss beside logits",
            "bfloat16",
            scenario=Scenario(train=True),
        ),
    ),
)
