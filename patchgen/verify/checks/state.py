"""Check what a variant keeps: checkpoints, drawn weights, and plans with their names."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, set_seed

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, judge
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.build import silence_progress
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import load_strictly, nan_where_not_drawn, reload
from patchgen.verify.plans import Finding, compared

# --- Check that parent and variant load each other's checkpoints


def check_checkpoints(context: CheckContext) -> Verdict:
    """A checkpoint goes from the parent to the variant and back with all tensors equal."""
    pair, route = context.pair, context.pair.routes[0]
    with tempfile.TemporaryDirectory() as folder, silence_progress():
        pair.master(torch.float32).save_pretrained(Path(folder, "parent"))
        # Load the parent once: transformers itself then changes Funnel's padding row.
        parent = load_strictly(pair.parent_class, Path(folder, "parent"), **route.parent)
        place = Path(folder, "made")
        place.mkdir()
        variant = pair.build(parent, pair.variant_class, place, dict(route.variant))
        variant.save_pretrained(Path(folder, "variant"))
        again = load_strictly(pair.variant_class, Path(folder, "variant"), **route.variant)
        wrong, what = _unequal(variant, again), "made by its own conversion, saved and loaded again"
        if pair.build is reload:
            back = load_strictly(pair.parent_class, Path(folder, "variant"), **route.parent)
            wrong, what = wrong | _unequal(parent, back), "the parent's into the variant, and back"
    note = f"{what}: differs in {', '.join(sorted(wrong)[:5])}" if wrong else what
    return judge(not wrong, note)


def _unequal(one: PreTrainedModel, two: PreTrainedModel) -> set[str]:
    ours, theirs = one.state_dict(), two.state_dict()
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
    laid_out, blank = _parent_as_variant(pair), _parent_as_variant(pair, blank=True).state_dict()
    set_seed(SEED)
    with nan_where_not_drawn():
        variant = pair.variant_class(copy.deepcopy(laid_out.config))
    theirs, ours = laid_out.state_dict(), variant.state_dict()
    # A tensor that is not zero in a variant of zeros is no weight of the parent, such as a router;
    # new parameters have a case of their own.
    names = [
        name
        for name in ours
        if name in theirs and name not in pair.new_parameters
        if ours[name].is_floating_point() and not blank[name].any()
    ]
    if not names:
        raise NothingToCompare("no tensor is in both")
    if wrong := sorted(name for name in names if not _alike(theirs[name], ours[name])):
        return Verdict("FAIL", f"drawn from other distributions: {', '.join(wrong[:5])}")
    return Verdict("PASS", f"{len(names)} tensors are drawn as the parent's")


def _parent_as_variant(pair: Pair, *, blank: bool = False) -> PreTrainedModel:
    """A new parent's weights, or zeros in their place, laid out as the variant has them."""
    config = pair.config()
    for name in ("initializer_range", "init_std"):
        if hasattr(config, name):
            setattr(config, name, RANGE)
    set_seed(SEED)
    parent = pair.parent_class(config)
    with torch.no_grad():
        for parameter in parent.parameters() if blank else ():
            parameter.zero_()
    with tempfile.TemporaryDirectory() as folder, silence_progress():
        return pair.build(parent, pair.variant_class, Path(folder), dict(pair.routes[0].variant))


def _alike(one: Tensor, two: Tensor) -> bool:
    """Whether both may be samples of one distribution, by mean and standard deviation."""
    if one.shape != two.shape or one.numel() < 2:
        return one.shape == two.shape and bool(torch.isfinite(two).all())
    spreads, means = zip(*(torch.std_mean(each.double()) for each in (one, two)), strict=True)
    error = ERRORS * float(max(spreads)) / (one.numel() ** 0.5) + 1e-6
    apart = abs(float(spreads[0] - spreads[1]))
    return abs(float(means[0] - means[1])) <= 2 * error and apart <= error


# --- Check that the plans and lists of names that a class carries match the model

MOST_NAMED = 4


def check_plans(context: CheckContext) -> Verdict:
    """FAIL for a name that matches nothing in the variant and something in the parent."""
    found = compared(*reversed(both_on_meta(context.pair)))
    if found.wrong:
        return Verdict("FAIL", _listed(found.wrong))
    if found.inherited:
        too = f"the parent has these too: {_listed(found.inherited)}"
        return Verdict("WARN", f"{found.checked} rules and names; {too}")
    refused = "".join(f"; no {why}" for why in found.refused)
    return Verdict(
        "PASS", f"{found.checked} rules and names, each of something that is there{refused}"
    )


def both_on_meta(pair: Pair) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Parent and variant without weights.

    Raises CannotBuild if the parent has no tiny configuration.
    """
    try:
        parent = on_meta(pair.parent_class, pair.config())
    except (TypeError, ValueError, AttributeError, KeyError, NotImplementedError) as error:
        name, what = pair.parent_class.__name__, f"{type(error).__name__}: {error}"
        raise CannotBuild(f"{name} has no tiny configuration: {what}") from error
    own, config = pair.variant_class.config_class, pair.config()
    if own is not pair.parent_class.config_class:
        config = own(**config.to_dict())
    return parent, on_meta(pair.variant_class, config)


def on_meta(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    """A model on the meta device, which takes no memory."""
    with torch.device("meta"):
        return model_class(config)


def _listed(findings: Iterable[Finding]) -> str:
    messages = [str(one) for one in findings]
    more = f"; and {len(messages) - MOST_NAMED} more" if len(messages) > MOST_NAMED else ""
    return "; ".join(messages[:MOST_NAMED]) + more
