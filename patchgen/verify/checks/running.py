"""Check what a variant runs: the effect of each part, products, choices, operators, graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.library import opcheck
from torch.utils._pytree import tree_map_only

from patchgen.verify.checks.context import (
    CheckContext,
    NothingToCompare,
    Verdict,
    decide,
    judge,
    require_scenario,
)
from patchgen.verify.differences import REORDERED, differences
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.evidence import Work, compiling, gather_evidence
from patchgen.verify.observe.recorder import Args, Given, Listener, listening
from patchgen.verify.observe.step import observe_step, takes_cache
from patchgen.verify.parts.part_check import Scenario

# --- Check that a part had its effect


def check_effect(context: CheckContext) -> Verdict:
    """Check the effect of the part that the case's detail names."""
    pair = context.pair
    part_check = next(each for each in pair.part_checks if each.part == context.case.detail)
    checkpoints = pair.variant_class.supports_gradient_checkpointing
    if part_check.effect_scenario.checkpointing is not None and not checkpoints:
        return Verdict("FAIL", "it has no gradient checkpointing")
    parent, variant = pair.evidence(part_check.effect_scenario)
    missing = list(part_check.effect(parent, variant, pair.facts))
    calls, largest = variant.trace.sdpa, variant.largest_saved
    masks = ", ".join(sorted({f"mask {call.mask}" for call in calls})) or "no mask"
    named = sorted(name.removeprefix("aten.") for name in variant.kernels if "attention" in name)
    backends = ", ".join(name for name in named if "backward" not in name)
    ran = (
        f"{len(calls)} SDPA calls ({masks}; {backends or 'no attention kernel'}), "
        f"{variant.trace.softmaxes_over(*pair.facts.lengths)} softmaxes over scores, "
        f"{variant.saved_bytes:,} bytes saved where the parent saves {parent.saved_bytes:,}, "
        f"largest {'none' if largest is None else largest.shape}"
    )
    return judge(not missing, f"{'; '.join(missing)}: {ran}" if missing else ran)


# --- Check that a variant has no more to compute than its parent

# In training a fused loss multiplies again for the gradients of states and weight.
MORE_PRODUCTS = 4


def check_work(context: CheckContext) -> Verdict:
    """No more FLOPs than the parent; under autocast, no more of them in float32.

    In training a computation in chunks has more products of as many FLOPs, but only a few more.
    """
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    try:
        theirs = _work_of(pair, 0, scenario)
    except Exception as error:  # each model has its own
        raise NothingToCompare(f"the parent itself does not run so: {error}") from error
    ours = _work_of(pair, 1, scenario)
    if scenario.autocast:
        note = f"{ours.wide_flops:,} FLOPs in float32, the parent {theirs.wide_flops:,}"
        return judge(ours.wide_flops <= theirs.wide_flops, note)
    note = f"{ours.products} products of {ours.flops:,} FLOPs"
    note = f"{note}; the parent {theirs.products} of {theirs.flops:,}"
    is_more = ours.flops > theirs.flops
    if scenario.train:
        is_more = is_more and ours.products > theirs.products + MORE_PRODUCTS
    return judge(not is_more, note)


def _work_of(pair: Pair, side: int, scenario: Scenario) -> Work:
    """Of a step, or of a forward pass where nothing is trained."""
    model = pair.models(pair.routes[0], torch.float32)[side]
    inputs = pair.inputs(scenario, torch.float32)
    # A CPU takes the plain backend for a learned bias, which casts to float32 where a GPU does not.
    allowed = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with listening(work := Work()):
            if scenario.train:
                observe_step(model, inputs, scenario, checkpointing=bool(side))
            else:
                cache = {"use_cache": False} if takes_cache(type(model)) else {}
                with torch.no_grad():
                    model.eval()(**inputs.given, **cache)
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
    return work


# --- Check that a recompute does not choose experts again
#
# A router that runs again can choose other experts, where two of them score nearly the same.  So a
# mixture that is checkpointed keeps what its routers chose, by torch's selective checkpointing.

# What a modeling file imports to keep them.
KEEPS = "create_selective_checkpoint_contexts"
CHOICE = "aten.topk"


def check_choices(context: CheckContext) -> Verdict:
    """A checkpointed step makes as many choices as a plain one."""
    pair, scenario = context.pair, context.case.scenario
    if not hasattr(pair.module, KEEPS):
        raise NothingToCompare("it does not choose what a recompute keeps")
    _, variant = pair.models(pair.routes[0], torch.float32)
    counts = []
    for asked in (replace(scenario, checkpointing=None), scenario):
        with gather_evidence(variant) as evidence:
            observe_step(variant, pair.inputs(asked, torch.float32), asked)
        counts.append(evidence.kernels[CHOICE])
    plain, checkpointed = counts
    if not plain:
        raise NothingToCompare("no router chooses in it")
    note = f"{checkpointed} choices in a checkpointed step, {plain} in a plain one"
    return judge(checkpointed == plain, note)


# --- Check the custom operators that a variant runs, by torch's own `opcheck`
#
# `torch.compile` trusts an operator's fake function and its schema: where they say something else
# than the operator does, a compiled model computes nonsense, and no eager step shows it.

# Namespaces of torch's own operators.
NATIVE = frozenset("aten prim prims profiler higher_order c10d _c10d_functional".split())
TESTS = ("test_schema", "test_faketensor")


class _Calls(Listener):
    """The first call of each operator that is not torch's, with copies of its arguments."""

    def __init__(self) -> None:
        self.first: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}

    def begins(self, operation: Any, args: Args, given: Given) -> None:
        if operation.namespace not in NATIVE and str(operation) not in self.first:
            copied = tree_map_only(Tensor, lambda each: each.detach().clone(), (args, given))
            self.first[str(operation)] = operation, *copied


def check_operators(context: CheckContext) -> Verdict:
    """Check each of the variant's own operators, as the case's step calls it."""
    pair, scenario = context.pair, context.case.scenario
    context.view(pair.routes[0]).parent()  # raises if the parent cannot
    _, variant = pair.models(pair.routes[0], context.dtype)
    with listening(calls := _Calls()):
        observe_step(variant, pair.inputs(scenario, context.dtype), scenario)
    if not calls.first:
        raise NothingToCompare("it runs no operator of its own")
    for operator, args, kwargs in calls.first.values():
        try:
            opcheck(operator, args, kwargs, test_utils=TESTS)
        except Exception as error:  # an operator raises what it likes
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Verdict("FAIL", f"{operator}: {lines[0][:200]}")
    return Verdict("PASS", ", ".join(sorted(calls.first)))


# --- Whether the variant computes under `torch.compile` what it computes without


def check_compiled(context: CheckContext) -> Verdict:
    """Compare the compiled variant with the uncompiled one, with the backend of the case's detail.

    FAIL where nothing was compiled, since the variant would be held against itself, and where a
    graph ends for a reason that ends none of the parent's.
    """
    pair, scenario, backend = context.pair, context.case.scenario, context.case.detail
    require_scenario(pair, scenario)
    inputs = pair.inputs(scenario, torch.float32)
    # Built for this: transformers' hooks stay in a model that was asked for its states once, and
    # end its graphs.
    parent, variant = pair.built(pair.routes[0], torch.float32)
    reference = observe_step(variant, inputs, scenario)
    with compiling(variant, backend) as ours:
        observed = observe_step(variant, inputs, scenario)
    if not ours.graphs:
        return Verdict("FAIL", f"{backend} was given no graph: nothing was compiled")
    if ours.breaks:
        with compiling(parent, "eager") as theirs:
            checkpoints = parent.supports_gradient_checkpointing
            observe_step(parent, inputs, scenario, checkpointing=checkpoints)
        documented = {reason for check in pair.part_checks for reason in check.ends_graphs}
        if more := ours.breaks.keys() - theirs.breaks.keys() - documented:
            listed = "; ".join(ours.breaks[reason] for reason in sorted(more))
            return Verdict("FAIL", f"graphs end where the parent's do not: {listed}")
    compared = {name: t for name, t in observed.items() if not name.startswith("attentions")}
    route = replace(pair.routes[0], bound=REORDERED)
    verdict = decide(context, differences(reference, compared), route, "itself uncompiled")
    graphs = f"{ours.graphs} graphs of {ours.operations} operations"
    return replace(verdict, note=f"{verdict.note}; {graphs}")
