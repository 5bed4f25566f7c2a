"""Check that parent and variant load each other's checkpoints."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, Verdict
from patchgen.verify.models.build import silence_progress
from patchgen.verify.parts.part_check import load_strictly, reload


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
        wrong = _unequal(variant, again)
        if pair.build is not reload:
            return _loaded(wrong, "made by its own conversion, saved and loaded again")
        back = load_strictly(pair.parent_class, Path(folder, "variant"), **route.parent)
        return _loaded([*wrong, *_unequal(parent, back)], "the parent's into the variant, and back")


def _unequal(one: PreTrainedModel, two: PreTrainedModel) -> list[str]:
    ours, theirs = one.state_dict(), two.state_dict()
    return [
        name
        for name in {**ours, **theirs}
        if name not in ours
        or name not in theirs
        or not torch.equal(ours[name].cpu(), theirs[name].cpu())
    ]


def _loaded(wrong: list[str], what: str) -> Verdict:
    if wrong:
        return Verdict("FAIL", f"{what}: differs in {', '.join(sorted(wrong)[:5])}")
    return Verdict("PASS", what)
