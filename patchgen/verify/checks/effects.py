"""Check that a part had its effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.observe.evidence import SdpaCall


def check_effect(context: CheckContext) -> Verdict:
    """Check the effect of the part that the case's detail names."""
    pair = context.pair
    part_check = next(
        part_check for part_check in pair.part_checks if part_check.part == context.case.detail
    )
    if (
        part_check.effect_scenario.checkpointing is not None
        and not pair.variant_class.supports_gradient_checkpointing
    ):
        return Verdict("FAIL", "it has no gradient checkpointing")
    parent, variant = pair.evidence(part_check.effect_scenario)
    missing = list(part_check.effect(parent, variant, pair.facts))
    largest = variant.largest_saved
    ran = (
        f"{len(variant.trace.sdpa)} SDPA calls "
        f"({_masks(variant.trace.sdpa)}; {_backends(variant.kernels)}), "
        f"{variant.trace.softmaxes_over(*pair.facts.lengths)} softmaxes over scores, "
        f"{variant.saved_bytes:,} bytes saved where the parent saves {parent.saved_bytes:,}, "
        f"largest {'none' if largest is None else largest.shape}"
    )
    return Verdict("FAIL", f"{'; '.join(missing)}: {ran}") if missing else Verdict("PASS", ran)


def _masks(calls: Sequence[SdpaCall]) -> str:
    return ", ".join(sorted({f"mask {call.mask}" for call in calls})) or "no mask"


def _backends(kernels: Mapping[str, int]) -> str:
    named = sorted(name for name in kernels if "attention" in name and "backward" not in name)
    return ", ".join(name.removeprefix("aten.") for name in named) or "no attention kernel"
