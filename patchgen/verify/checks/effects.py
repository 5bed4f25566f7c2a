"""Whether a part did what it is there for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchgen.verify.checks.context import Trial, Verdict
from patchgen.verify.observe.trace import SdpaCall


def shows_effect(trial: Trial) -> Verdict:
    """The effect of the part that the case's detail names."""
    pair = trial.pair
    claim = next(claim for claim in pair.claims if claim.part == trial.case.detail)
    if (
        claim.shown_in.checkpointing is not None
        and not pair.variant_class.supports_gradient_checkpointing
    ):
        return Verdict("FAIL", "it has no gradient checkpointing")
    parent, variant = pair.evidence(claim.shown_in)
    missing = list(claim.effect(parent, variant, pair.specimen))
    largest = variant.largest_saved
    ran = (
        f"{len(variant.trace.sdpa)} SDPA calls ({_masks(variant.trace.sdpa)}; {_backends(variant.kernels)}), "
        f"{variant.trace.softmaxes_over(*pair.specimen.lengths)} softmaxes over scores, "
        f"{variant.saved_bytes:,} bytes saved where the parent saves {parent.saved_bytes:,}, "
        f"largest {'none' if largest is None else largest.shape}"
    )
    return Verdict("FAIL", f"{'; '.join(missing)}: {ran}") if missing else Verdict("PASS", ran)


def _masks(calls: Sequence[SdpaCall]) -> str:
    return ", ".join(sorted({f"mask {call.mask}" for call in calls})) or "no mask"


def _backends(kernels: Mapping[str, int]) -> str:
    named = sorted(name for name in kernels if "attention" in name and "backward" not in name)
    return ", ".join(name.removeprefix("aten.") for name in named) or "no attention kernel"
