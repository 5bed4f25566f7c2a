"""Check that a variant keeps its fast path: no more attention calls, no more waits for the device.

Each recipe is compared with the variant's plain step.  What the recipe costs the parent is allowed.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.checks.numbers import require_scenario
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.pace import Compiled, Pace, count_compiled, count_fast_path
from patchgen.verify.observe.step import observe_step, takes_cache
from patchgen.verify.parts.scenario import Scenario

LENGTHS = (13, 11, 17)


def check_fast_path(context: CheckContext) -> Verdict:
    """Compare one step with the plain step; the case's detail names the recipe."""
    pair, scenario = context.pair, context.case.scenario
    plain = replace(scenario, dropout=0.0, autocast=False, accumulate=1)
    require_scenario(pair, replace(scenario, dropout=0.0))
    try:
        parent = [
            _pace(pair, 0, *how) for how in ((torch.float32, plain), (context.dtype, scenario))
        ]
    except Exception as error:  # each model has its own
        raise NothingToCompare(f"the parent itself does not run so: {error}") from error
    base, ours = _pace(pair, 1, torch.float32, plain), _pace(pair, 1, context.dtype, scenario)
    wrong = _slower(base, ours, *parent)
    if scenario.autocast and not wrong:
        wrong = _wider(pair, parent[1], ours)
    if wrong:
        return Verdict("FAIL", f"off the fast path: {wrong}")
    products = f"{ours.wide_flops:,} of {ours.flops:,} FLOPs in float32"
    return Verdict("PASS", f"{ours.attentions} attentions, {ours.waited} waits, {products}")


# In training a fused loss multiplies again for the gradients of states and weight.
MORE_PRODUCTS = 4


def check_work(context: CheckContext) -> Verdict:
    """No more FLOPs than the parent in a forward pass, and hardly more products in training."""
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    count = functools.partial(_pace, pair, dtype=context.dtype, scenario=scenario)
    if not scenario.train:
        count = functools.partial(_forward_pace, pair, dtype=context.dtype, scenario=scenario)
    try:
        parent = count(side=0)
    except Exception as error:  # each model has its own
        raise NothingToCompare(f"the parent itself does not run so: {error}") from error
    ours = count(side=1)
    note = f"{ours.products} products of {ours.flops:,} FLOPs"
    note = f"{note}; the parent {parent.products} of {parent.flops:,}"
    if scenario.train:
        is_more = ours.products > parent.products + MORE_PRODUCTS
    else:
        is_more = ours.flops > parent.flops
    return Verdict("FAIL" if is_more else "PASS", note)


def _forward_pace(pair: Pair, side: int, dtype: torch.dtype, scenario: Scenario) -> Pace:
    model = pair.models(pair.routes[0], dtype)[side].eval()
    cache = {"use_cache": False} if takes_cache(type(model)) else {}
    with torch.no_grad(), count_fast_path() as pace:
        model(**pair.inputs(scenario, dtype).given, **cache)
    return pace


def _slower(base: Pace, ours: Pace, parent_base: Pace, parent: Pace) -> str:
    """The extra costs of the recipe in comparison with the parent."""
    attentions = max(0, parent.attentions - parent_base.attentions)
    waits = max(0, parent.waited - parent_base.waited)
    if ours.attentions > base.attentions + attentions:
        return f"{ours.attentions} calls of attention, where the plain step has {base.attentions}"
    if ours.waited > base.waited + waits:
        return f"waits {dict(ours.waits)}, where the plain step has {dict(base.waits)}"
    return ""


def _wider(pair: Pair, parent: Pace, ours: Pace) -> str:
    """Products that stay in float32 under autocast, but not in the parent."""
    more = ours.wide_flops - parent.wide_flops
    allowed = max((part_check.wide_share for part_check in pair.part_checks), default=0.0)
    if more <= allowed * ours.flops:
        return ""
    return f"{more:,} of {ours.flops:,} FLOPs more in float32 than in the parent"


def _pace(pair: Pair, side: int, dtype: torch.dtype, scenario: Scenario) -> Pace:
    model = pair.models(pair.routes[0], dtype, scenario.dropout)[side]
    inputs = pair.inputs(scenario, dtype)
    with count_fast_path() as pace:
        observe_step(model, inputs, scenario, checkpointing=bool(side))
    return pace


def check_recompilation(context: CheckContext) -> Verdict:
    """Check that several lengths give no more graphs, breaks and masks than in the parent."""
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    parent, variant = pair.models(pair.routes[0], torch.float32, fresh=True)
    theirs, ours = (_compiled(pair, model, scenario) for model in (parent, variant))
    note = f"{ours}; the parent {theirs}"
    if not ours.graphs:
        return Verdict("FAIL", "nothing was compiled")
    # transformers warns when it looks up a loss, so two look-ups are two graph breaks.
    if ours.graphs > theirs.graphs or ours.reasons - theirs.reasons:
        return Verdict("FAIL", note)
    if ours.masked > theirs.masked:
        return Verdict("FAIL", note)
    return Verdict("PASS", note)


def _compiled(pair: Pair, model: PreTrainedModel, scenario: Scenario) -> Compiled:
    model.train(scenario.train)

    asked = {"use_cache": False} if takes_cache(type(model)) else {}

    def step(length: int) -> None:
        # Without hidden states, whose hooks alone break a graph.
        model(**pair.inputs(replace(scenario, length=length), torch.float32).given, **asked)

    return count_compiled(model, [functools.partial(step, length) for length in LENGTHS])
