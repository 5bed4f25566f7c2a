"""Whether a variant keeps to its fast path in every recipe: as many attentions, and no more waits for the device.

A recipe is held against the plain step of the same variant, and what the recipe costs the parent is allowed.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from patchgen.verify.checks.context import Nothing, Trial, Verdict
from patchgen.verify.checks.numbers import insist_on_scene
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.pace import Compiled, Pace, compiled_over, paced
from patchgen.verify.observe.step import observe_step, takes_cache
from patchgen.verify.parts.part_check import Scene

LENGTHS = (13, 11, 17)

# Found, and not mended yet: by the part and what is said of it, with the reason.  A WARN, and not a FAIL.
KNOWN = {
    (
        "loss",
        "compiled",
    ): "the number of chunks is a constant of the graph: another length is another graph",
    ("moe", "compiled"): "the mixture reads back how many tokens each expert has",
}


def keeps_pace(trial: Trial) -> Verdict:
    """One step of the case's scene against the plain one; the case's detail names the recipe."""
    pair, scene = trial.pair, trial.case.scene
    plain = replace(scene, dropout=0.0, autocast=False, accumulate=1)
    insist_on_scene(pair, replace(scene, dropout=0.0))
    try:
        parent = [_pace(pair, 0, *how) for how in ((torch.float32, plain), (trial.dtype, scene))]
    except Exception as error:  # each model has its own
        raise Nothing(f"the parent itself does not run so: {error}") from error
    base, ours = _pace(pair, 1, torch.float32, plain), _pace(pair, 1, trial.dtype, scene)
    if wrong := _slower(base, ours, *parent):
        return _judged(trial, trial.case.detail, f"off the fast path: {wrong}")
    return Verdict("PASS", f"{ours.attentions} attentions, {ours.waited} waits")


def _slower(base: Pace, ours: Pace, parent_base: Pace, parent: Pace) -> str:
    """What the recipe costs more than in the parent; nothing where it does not."""
    attentions = max(0, parent.attentions - parent_base.attentions)
    waits = max(0, parent.waited - parent_base.waited)
    if ours.attentions > base.attentions + attentions:
        return f"{ours.attentions} calls of attention, where the plain step has {base.attentions}"
    if ours.waited > base.waited + waits:
        return f"waits {dict(ours.waits)}, where the plain step has {dict(base.waits)}"
    return ""


def _pace(pair: Pair, side: int, dtype: torch.dtype, scene: Scene) -> Pace:
    model = pair.models(pair.routes[0], dtype, scene.dropout)[side]
    inputs = pair.inputs(scene, dtype)
    with paced() as pace:
        observe_step(model, inputs, scene, checkpointing=bool(side))
    return pace


def compiles_once(trial: Trial) -> Verdict:
    """Over several lengths no more graphs, breaks and masks than the parent."""
    pair, scene = trial.pair, trial.case.scene
    insist_on_scene(pair, scene)
    parent, variant = pair.models(pair.routes[0], torch.float32, fresh=True)
    theirs, ours = (_compiled(pair, model, scene) for model in (parent, variant))
    note = f"{ours}; the parent {theirs}"
    if not ours.graphs:
        return Verdict("FAIL", "nothing was compiled")
    if ours.graphs > theirs.graphs or ours.breaks > theirs.breaks:
        return _judged(trial, "compiled", note)
    if ours.masked > theirs.masked:
        return _judged(trial, "masks", note)
    return Verdict("PASS", note)


def _compiled(pair: Pair, model: PreTrainedModel, scene: Scene) -> Compiled:
    model.train(scene.train)

    asked = {"use_cache": False} if takes_cache(type(model)) else {}

    def step(length: int) -> None:
        # Without hidden states, whose hooks alone break a graph.
        model(**pair.inputs(replace(scene, length=length), torch.float32).given, **asked)

    return compiled_over(model, [functools.partial(step, length) for length in LENGTHS])


def _judged(trial: Trial, what: str, note: str) -> Verdict:
    """FAIL, or WARN where that is known of a part of the variant."""
    reasons = [
        KNOWN[claim.part, what] for claim in trial.pair.claims if (claim.part, what) in KNOWN
    ]
    return Verdict("WARN", f"{note}; known: {reasons[0]}") if reasons else Verdict("FAIL", note)
