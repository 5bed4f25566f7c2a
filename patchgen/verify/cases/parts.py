"""Cases that the parts of a variant ask for: their effects, and the errors planted in them."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen.verify.cases.case import LONG, PADDED_ROWS, UNPACKED_ROWS, Case
from patchgen.verify.inputs.calls import FROZEN
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Scenario
from patchgen.verify.variants import Variant

PartChecks = tuple[PartCheck, ...]
# The names that configurations give rates of dropout.
RATES = (
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "attention_dropout",
    "moe_token_dropout",
)
# How a model that calls transformers' attention interface is run: see `checks.interface`.
UNLABELLED = Scenario(labels=False)
INTERFACE = ("eager", "flex_attention", "flash", "registered")


def show_effects(head: str, checks: PartChecks) -> Iterator[Case]:
    """The effect of each part, and what a recompute policy keeps."""
    for check in checks:
        yield Case(f"{head} effect of {check.part}", "effect", head, detail=check.part)
        for options in check.checkpointing:
            if "context_fn" not in options:
                continue
            for length, suffix in ((0, ""), (LONG, ", long")):
                scenario = Scenario(train=True, checkpointing=options, length=length)
                yield Case(f"{head} keeps products{suffix}", "kept", head, scenario=scenario)


def check_operations(head: str) -> Iterator[Case]:
    """The variant's own operators, and whether a recompute chooses experts again."""
    for dtype in ("float32", "bfloat16"):
        scenario = Scenario(rows="right", train=True)
        yield Case(f"{head} {dtype} operators", "operators", head, dtype, scenario=scenario)
    frozen = Scenario(rows="right", train=True, ways=(FROZEN,))
    yield Case(f"{head} operators with a frozen head", "operators", head, scenario=frozen)
    checkpointed = Scenario(rows="right", train=True, checkpointing={})
    yield Case(f"{head} choices", "choices", head, scenario=checkpointed)


def compare_with_itself(
    head: str, checks: PartChecks, changed: tuple[str, ...] = ()
) -> Iterator[Case]:
    """Two ways to run the variant that must give the same, as its parts promise.

    A norm that is `changed` is held against the parent's alone.
    """
    parts = {check.part for check in checks}
    if "loss" in parts:
        # A narrow dtype shows what is not summed in float32.
        name, scenario = f"{head} bfloat16 loss beside logits", Scenario(train=True)
        yield Case(name, "loss beside logits", head, "bfloat16", scenario=scenario)
    if "norm" in parts or any("Norm" in name for name in changed):
        yield Case(f"{head} bfloat16 norms alone", "norms", head, "bfloat16")
    # Other heads give one result a row, whatever is in it.
    if "flash" in parts and head.endswith(("Model", "ForMaskedLM", "ForCausalLM")):
        yield Case(f"{head} texts in one row", "isolation", head, "float64", scenario=UNLABELLED)


def plant_errors(head: str, checks: PartChecks, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Each error that a part lists.  The comparison must notice it."""
    for dtype in dtypes:
        for check in checks:
            for error in check.planted_errors:
                name = f"{head} {dtype} planted: {error.name} ({check.part})"
                detail = f"{check.part}:{error.name}"
                yield Case(name, "planted", head, dtype, detail=detail, scenario=error.scenario)


def try_interface(head: str, checks: PartChecks) -> Iterator[Case]:
    """Each attention function, if the model calls transformers' attention interface."""
    if not any(check.by_flags for check in checks):
        return
    for how in INTERFACE:
        for rows in UNPACKED_ROWS:
            scenario = training_scenario(checks, rows)
            name = f"{head} float64 {rows} by {how}"
            yield Case(name, "interface", head, "float64", scenario=scenario, detail=how)
    name = f"{head} float32 left by eager"
    yield Case(name, "interface", head, scenario=Scenario(rows="left"), detail="eager")


def check_padding_and_dropout(variant: Variant, checks: PartChecks) -> Iterator[Case]:
    """Dropout of layers that draw it in another order, so that no single step can be compared."""
    if all(check.same_rng_order for check in checks):
        return
    head = variant.heads[0]
    if any(check.part == "flash" for check in checks):
        for rows in PADDED_ROWS:
            name = f"{head} {rows} gives zeros at padding"
            yield Case(name, "zeros", head, "float64", scenario=Scenario(rows=rows))
    for rate in RATES:
        for rows in UNPACKED_ROWS[:2]:
            scenario = Scenario(rows=rows, labels=False)
            name = f"{head} {rows} drops by {rate}"
            yield Case(name, "drops", head, scenario=scenario, detail=rate)
