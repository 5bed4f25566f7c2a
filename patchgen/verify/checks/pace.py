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

# Known defects, by part and kind, with the reason.  They are a WARN, not a FAIL.
KNOWN = {
    (
        "loss",
        "compiled",
    ): "the number of chunks is a constant of the graph: another length is another graph",
    ("moe", "compiled"): "the mixture reads back how many tokens each expert has",
}


def check_fast_path(context: CheckContext) -> Verdict:
    """One step of the case's scene against the plain one; the case's detail names the recipe."""
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
        return _judged(context, context.case.detail, f"off the fast path: {wrong}")
    products = f"{ours.wide_flops:,} of {ours.flops:,} FLOPs in float32"
    return Verdict("PASS", f"{ours.attentions} attentions, {ours.waited} waits, {products}")


def _slower(base: Pace, ours: Pace, parent_base: Pace, parent: Pace) -> str:
    """What the recipe costs more than in the parent; nothing where it does not."""
    attentions = max(0, parent.attentions - parent_base.attentions)
    waits = max(0, parent.waited - parent_base.waited)
    if ours.attentions > base.attentions + attentions:
        return f"{ours.attentions} calls of attention, where the plain step has {base.attentions}"
    if ours.waited > base.waited + waits:
        return f"waits {dict(ours.waits)}, where the plain step has {dict(base.waits)}"
    return ""


def _wider(pair: Pair, parent: Pace, ours: Pace) -> str:
    """What autocast does not make narrow, though it does in the parent."""
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
    """Over several lengths no more graphs, breaks and masks than the parent."""
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    parent, variant = pair.models(pair.routes[0], torch.float32, fresh=True)
    theirs, ours = (_compiled(pair, model, scenario) for model in (parent, variant))
    note = f"{ours}; the parent {theirs}"
    if not ours.graphs:
        return Verdict("FAIL", "nothing was compiled")
    if ours.graphs > theirs.graphs or ours.breaks > theirs.breaks:
        return _judged(context, "compiled", note)
    if ours.masked > theirs.masked:
        return _judged(context, "masks", note)
    return Verdict("PASS", note)


def _compiled(pair: Pair, model: PreTrainedModel, scenario: Scenario) -> Compiled:
    model.train(scenario.train)

    asked = {"use_cache": False} if takes_cache(type(model)) else {}

    def step(length: int) -> None:
        # Without hidden states, whose hooks alone break a graph.
        model(**pair.inputs(replace(scenario, length=length), torch.float32).given, **asked)

    return count_compiled(model, [functools.partial(step, length) for length in LENGTHS])


def _judged(context: CheckContext, what: str, note: str) -> Verdict:
    """FAIL, or WARN where that is known of a part of the variant."""
    reasons = [
        KNOWN[part_check.part, what]
        for part_check in context.pair.part_checks
        if (part_check.part, what) in KNOWN
    ]
    return Verdict("WARN", f"{note}; known: {reasons[0]}") if reasons else Verdict("FAIL", note)
