"""Check that the plans and lists of names that a class carries match the model."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair
from patchgen.verify.plans.plans import Finding, compared

MOST_NAMED = 4


def check_plans(context: CheckContext) -> Verdict:
    """FAIL for a name that matches nothing in the variant and something in the parent."""
    parent, variant = both_on_meta(context.pair)
    found = compared(variant, parent)
    if found.wrong:
        return Verdict("FAIL", _listed(found.wrong))
    note = f"{found.checked} rules and names, each of something that is there"
    note += "".join(f"; no {why}" for why in found.refused)
    if found.inherited:
        too = f"the parent has these too: {_listed(found.inherited)}"
        return Verdict("WARN", f"{found.checked} rules and names; {too}")
    return Verdict("PASS", note)


def both_on_meta(pair: Pair) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Parent and variant without weights.

    Raises CannotBuild if the parent has no tiny configuration.
    """
    try:
        parent = on_meta(pair.parent_class, pair.config())
    except (TypeError, ValueError, AttributeError, KeyError, NotImplementedError) as error:
        what = f"{type(error).__name__}: {error}"
        raise CannotBuild(
            f"{pair.parent_class.__name__} has no tiny configuration: {what}"
        ) from error
    own = pair.variant_class.config_class
    config = (
        pair.config() if own is pair.parent_class.config_class else own(**pair.config().to_dict())
    )
    return parent, on_meta(pair.variant_class, config)


def on_meta(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    """A model on the meta device, which takes no memory."""
    with torch.device("meta"):
        return model_class(config)


def _listed(findings: Iterable[Finding]) -> str:
    messages = [str(one) for one in findings]
    return "; ".join(messages[:MOST_NAMED]) + (
        f"; and {len(messages) - MOST_NAMED} more" if len(messages) > MOST_NAMED else ""
    )
