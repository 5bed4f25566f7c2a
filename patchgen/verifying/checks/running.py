"""Check what a variant runs: the effect of each part, products, choices, operators, graphs.

And what it keeps: checkpoints, drawn weights, and plans with their names.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.library import opcheck
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel, set_seed

from patchgen import disk
from patchgen.runtime.plans import compared
from patchgen.verifying.checks.context import (
    CheckContext,
    NothingToCompare,
    Verdict,
    decide,
    judge,
    require_scenario,
)
from patchgen.verifying.differences import REORDERED, differences
from patchgen.verifying.models.build import on_meta, silence_progress
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.evidence import Work, compiling, gather_evidence
from patchgen.verifying.observe.recorder import Args, Given, Listener, listening
from patchgen.verifying.observe.step import observe_step, takes_cache
from patchgen.verifying.parts.mixture import GROUPED_PRODUCTS, PRODUCTS
from patchgen.verifying.parts.part_check import Scenario, load_strictly, nan_where_not_drawn, reload
from patchgen.verifying.report import shorten

# --- Check that a part had its effect


def check_effect(context: CheckContext) -> Verdict:
    pair = context.pair
    part_check = next(each for each in pair.part_checks if each.part == context.case.detail)
    scenario = part_check.effect_scenario
    checkpoints = pair.variant_class.supports_gradient_checkpointing
    if scenario.checkpointing is not None and not checkpoints:
        return Verdict("FAIL", "it has no gradient checkpointing")
    changes = {**pair.changes, **part_check.effect_changes}
    pair = replace(pair, changes=changes)
    parent, variant = pair.evidence(scenario)
    missing = list(part_check.effect(parent, variant, pair.facts))
    bytes_saved = f"{variant.saved_bytes:,} bytes saved, {parent.saved_bytes:,} in the parent"
    return judge(not missing, "; ".join([*missing, bytes_saved]))


# --- Check that a variant has no more to compute than its parent

# In training a fused loss multiplies again for the gradients of states and weight.
MORE_PRODUCTS = 4


def check_work(context: CheckContext) -> Verdict:
    """No more FLOPs than the parent, or a few for chunks; under autocast, no more in float32."""
    pair = context.pair
    scenario = context.case.scenario
    require_scenario(pair, scenario)
    try:
        theirs = _work_of(pair, 0, scenario)
    except Exception as error:  # each model has its own
        raise NothingToCompare(f"the parent itself does not run so: {error}") from error
    ours = _work_of(pair, 1, scenario)
    if scenario.autocast:
        # transformers' own grouped products are wide under autocast.
        left = ours.grouped_flops if hasattr(pair.module, "use_experts_implementation") else 0
        note = f"{ours.wide_flops - left:,} FLOPs in float32, the parent {theirs.wide_flops:,}"
        return judge(ours.wide_flops - left <= theirs.wide_flops, note)
    note = f"{ours.products} products of {ours.flops:,} FLOPs"
    note = f"{note}; the parent {theirs.products} of {theirs.flops:,}"
    few = theirs.products + MORE_PRODUCTS if scenario.train else 0
    return judge(ours.flops <= theirs.flops or ours.products <= few, note)


def _work_of(pair: Pair, side: int, scenario: Scenario) -> Work:
    model = pair.models(pair.routes[0], torch.float32)[side]
    inputs = pair.inputs(scenario, torch.float32)
    cuda = torch.backends.cuda
    # A CPU takes the plain backend for a learned bias, which casts to float32 where a GPU does not.
    allowed = cuda.fp16_bf16_reduction_math_sdp_allowed()
    cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with listening(work := Work()):
            if scenario.train:
                observe_step(model, inputs, scenario, checkpointing=bool(side))
            else:
                cache = {"use_cache": False} if takes_cache(type(model)) else {}
                with torch.no_grad():
                    model.eval()(**inputs.given, **cache)
    finally:
        cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
    return work


# --- Check that a recompute does not choose experts again
#
# A router that runs again can choose others, where two score nearly the same.  So a mixture that is
# checkpointed keeps what its routers chose.

# What a modeling file imports to keep them.
KEEPS = "create_selective_checkpoint_contexts"
CHOICE = "aten.topk"
NOTHING_KEPT = {"context_fn": lambda: (nullcontext(), nullcontext())}


def check_choices(context: CheckContext) -> Verdict:
    """A checkpointed step makes as many choices as a plain one, and keeps no products."""
    pair = context.pair
    scenario = context.case.scenario
    if not hasattr(pair.module, KEEPS):
        raise NothingToCompare("it does not choose what a recompute keeps")
    variant = context.model()
    counts: list[int] = []
    products: list[int] = []
    for options in (None, scenario.checkpointing, NOTHING_KEPT):
        asked = replace(scenario, checkpointing=options)
        with gather_evidence(variant) as evidence:
            observe_step(variant, context.inputs(asked), asked)
        counts.append(evidence.kernels[CHOICE])
        products.append(sum(evidence.kernels[name] for name in (*PRODUCTS, *GROUPED_PRODUCTS)))
    plain, checkpointed, _ = counts
    if not plain:
        raise NothingToCompare("no router chooses in it")
    note = f"{checkpointed} choices in a checkpointed step, {plain} in a plain one"
    note = f"{note}; {products[1]} products, {products[2]} where nothing is kept"
    return judge(checkpointed == plain and products[1] == products[2], note)


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
    pair = context.pair
    scenario = context.case.scenario
    context.view(pair.routes[0]).parent()  # raises if the parent cannot
    with listening(calls := _Calls()):
        observe_step(context.model(), context.inputs(), scenario)
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
    pair = context.pair
    scenario = context.case.scenario
    backend = context.case.detail
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
        more = ours.breaks.keys() - theirs.breaks.keys()
        for check in pair.part_checks:
            more -= {*check.ends_graphs}
        if more:
            listed = "; ".join(ours.breaks[reason] for reason in sorted(more))
            return Verdict("FAIL", f"graphs end where the parent's do not: {listed}")
    compared = {name: t for name, t in observed.items() if not name.startswith("attentions")}
    route = replace(pair.routes[0], bound=REORDERED)
    verdict = decide(context, differences(reference, compared), route, "itself uncompiled")
    graphs = f"{ours.graphs} graphs of {ours.operations} operations"
    return replace(verdict, note=f"{verdict.note}; {graphs}")


# --- Check that parent and variant load each other's checkpoints


def check_checkpoints(context: CheckContext) -> Verdict:
    """A checkpoint goes from the parent to the variant and back with all tensors equal."""
    pair = context.pair
    route = pair.routes[0]
    with disk.scratch() as folder, silence_progress():
        pair.master(torch.float32).save_pretrained(folder / "parent")
        # Load the parent once: transformers itself then changes Funnel's padding row.
        parent = load_strictly(pair.parent_class, folder / "parent", **route.parent)
        place = folder / "made"
        disk.make_folder(place)
        variant = pair.build(parent, pair.variant_class, place, dict(route.variant))
        variant.save_pretrained(folder / "variant")
        again = load_strictly(pair.variant_class, folder / "variant", **route.variant)
        wrong = _unequal(variant, again)
        what = "made by its own conversion, saved and loaded again"
        if pair.build is reload:
            back = load_strictly(pair.parent_class, folder / "variant", **route.parent)
            wrong = wrong | _unequal(parent, back)
            what = "the parent's into the variant, and back"
    note = f"{what}: differs in {', '.join(sorted(wrong)[:5])}" if wrong else what
    return judge(not wrong, note)


def _unequal(one: PreTrainedModel, two: PreTrainedModel) -> set[str]:
    ours = one.state_dict()
    theirs = two.state_dict()
    both = ours.keys() & theirs.keys()
    differ = {name for name in both if not torch.equal(ours[name].cpu(), theirs[name].cpu())}
    return differ | (ours.keys() ^ theirs.keys())


# --- Check that a model that is not loaded draws its weights from the parent's distributions

SEED = 5
# Differs from the default of every torch module, so a weight that is never drawn stands out.
RANGE = 0.5
# Standard errors that two samples of one distribution may be apart.
ERRORS = 6.0


def check_initialization(context: CheckContext) -> Verdict:
    """Each tensor of a new variant has the mean and the spread that it has in the parent."""
    pair = context.pair
    if pair.variant_class.is_custom_code() != pair.parent_class.is_custom_code():
        return Verdict("FAIL", "transformers initialises it by the rules of another kind of code")
    laid_out = _parent_as_variant(pair)
    blank = _parent_as_variant(pair, blank=True).state_dict()
    set_seed(SEED)
    with nan_where_not_drawn():
        variant = pair.variant_class(copy.deepcopy(laid_out.config))
    theirs = laid_out.state_dict()
    ours = variant.state_dict()
    # A tensor that is not zero in a variant of zeros is no weight of the parent, such as a router;
    # new parameters have a case of their own.
    both = [name for name in ours if name in theirs and name not in pair.new_parameters]
    names = [name for name in both if ours[name].is_floating_point() and not blank[name].any()]
    if not names:
        raise NothingToCompare("no tensor is in both")
    wrong = sorted(name for name in names if not _alike(theirs[name], ours[name]))
    if wrong:
        return Verdict("FAIL", f"drawn from other distributions: {', '.join(wrong[:5])}")
    return Verdict("PASS", f"{len(names)} tensors are drawn as the parent's")


def _parent_as_variant(pair: Pair, *, blank: bool = False) -> PreTrainedModel:
    """A new parent's weights, or zeros in their place, laid out as the variant has them."""
    config = pair.config()
    for name in ("initializer_range", "init_std"):
        if hasattr(config, name):
            setattr(config, name, RANGE)
    on_meta(pair.parent_class, config)  # raises where it cannot be built
    set_seed(SEED)
    parent = pair.parent_class(config)
    with torch.no_grad():
        if blank:
            for parameter in parent.parameters():
                parameter.zero_()
    with disk.scratch() as folder, silence_progress():
        return pair.build(parent, pair.variant_class, folder, dict(pair.routes[0].variant))


def _alike(one: Tensor, two: Tensor) -> bool:
    """Whether both may be samples of one distribution, by mean and standard deviation."""
    if one.shape != two.shape or one.numel() < 2:
        return one.shape == two.shape and bool(torch.isfinite(two).all())
    spreads, means = zip(*(torch.std_mean(each.double()) for each in (one, two)), strict=True)
    error = ERRORS * float(max(spreads)) / (one.numel() ** 0.5) + 1e-6
    apart = max(abs(float(means[0] - means[1])) / 2, abs(float(spreads[0] - spreads[1])))
    return apart <= error and bool(spreads[0]) == bool(spreads[1])  # few values hide a constant


# --- Check that the plans and lists of names that a class carries match the model


def check_plans(context: CheckContext) -> Verdict:
    """FAIL for a name that matches nothing in the variant and something in the parent."""
    plans = compared(*reversed(both_on_meta(context.pair)))
    parent, variant = both_on_meta(context.pair, torch.bfloat16)
    kept = {name: parameter.dtype for name, parameter in parent.named_parameters()}
    wide = []
    for name, parameter in variant.named_parameters():
        if kept.get(name, parameter.dtype) != parameter.dtype:
            wide.append(name)
    if wide:
        return Verdict("FAIL", f"not of the configuration's dtype: {', '.join(wide[:5])}")
    if plans.wrong:
        return Verdict("FAIL", shorten(plans.wrong))
    if plans.inherited:
        too = f"the parent has these too: {shorten(plans.inherited)}"
        return Verdict("WARN", f"{plans.checked} rules and names; {too}")
    refused = "".join(f"; no {why}" for why in plans.refused)
    note = f"{plans.checked} rules and names, each of something that is there{refused}"
    return Verdict("PASS", note)


def both_on_meta(pair: Pair, dtype: Any = None) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Parent and variant without weights.  Raises CannotBuild."""
    own = pair.variant_class.config_class
    config = pair.config()
    config.dtype = dtype
    parent = on_meta(pair.parent_class, config)
    if own is not pair.parent_class.config_class:
        config = own(**config.to_dict())
    return parent, on_meta(pair.variant_class, config)
