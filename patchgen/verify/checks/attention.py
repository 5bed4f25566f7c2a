"""Check `attn_implementation`, and the attention weights that a user asks for."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, decide
from patchgen.verify.checks.numbers import compare
from patchgen.verify.models.attention_functions import flex_on_cpu
from patchgen.verify.models.build import silence_progress
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.part_check import reload
from patchgen.verify.parts.scenario import Scenario


def check_attention_weights(context: CheckContext) -> Verdict:
    """Compare attention weights, which in transformers only eager attention returns."""
    pair, dtype, scenario = context.pair, context.dtype, context.case.scenario
    route = pair.weights_route
    reference = pair.observe_parent(route, dtype, scenario, weights=True)
    if not any("attentions" in name for name in reference):
        raise NothingToCompare("the parent returns none")
    if not any("attentions" in name for name in pair.without_hidden(reference, scenario)):
        raise NothingToCompare("; ".join(pair.explain_hidden("attentions.0", scenario)))
    observed = pair.observe_variant(route, dtype, scenario, weights=True)
    return decide(context, compare(pair, route, dtype, scenario, observed, weights=True), route)


def check_attn_implementation(context: CheckContext) -> Verdict:
    """Check that the value is accepted or refused as the part checks or the parent say."""
    pair, name = context.pair, context.case.detail
    declared = [
        part_check.attentions
        for part_check in pair.part_checks
        if part_check.attentions is not None
    ]
    ours = _tried(pair, pair.variant_class, name)
    if not declared:
        theirs = _tried(pair, pair.parent_class, name)
        same = type(ours) is type(theirs)
        return Verdict(
            "PASS" if same else "FAIL", f"{_outcome(ours)}; the parent: {_outcome(theirs)}"
        )
    if all(name in accepted for accepted in declared):
        return Verdict(
            "FAIL" if isinstance(ours, Exception) else "PASS", f"declared; {_outcome(ours)}"
        )
    if any(part_check.by_flags for part_check in pair.part_checks) and supports(
        pair.variant_class, name
    ):
        # FlashAttention is not installed on a CPU, and transformers says so.
        right = isinstance(ours, ImportError) if name.startswith("flash") else ours is None
        return Verdict("PASS" if right else "FAIL", f"supported by its flags; {_outcome(ours)}")
    return Verdict(
        "PASS" if isinstance(ours, ValueError) else "FAIL", f"not declared; {_outcome(ours)}"
    )


def supports(model_class: type[PreTrainedModel], name: str) -> bool:
    """Whether the flags of the class say that it takes `name`."""
    if name.startswith("flash_attention"):
        return model_class._supports_flash_attn
    return {
        "sdpa": model_class._supports_sdpa,
        "flex_attention": model_class._supports_flex_attn,
    }.get(name, False)


def _tried(pair: Pair, model_class: type[PreTrainedModel], name: str) -> Exception | None:
    """The error of building and running a model with this attention."""
    try:
        if model_class is pair.variant_class and pair.build is not reload:
            with tempfile.TemporaryDirectory() as folder, silence_progress():
                settings = {**pair.routes[0].variant, "attn_implementation": name}
                model = pair.build(pair.master(torch.float32), model_class, Path(folder), settings)
        else:
            model = model_class._from_config(pair.config(), attn_implementation=name)
        with flex_on_cpu() if pair.device == "cpu" else nullcontext():
            observe_step(model.to(pair.device), pair.inputs(Scenario(), torch.float32), Scenario())
    except Exception as error:
        return error
    return None


def _outcome(error: Exception | None) -> str:
    if error is None:
        return "built and run"
    return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
