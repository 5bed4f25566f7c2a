"""packed: each text of a row gets what it gets alone, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from patchgen.verifying.differences import EQUAL
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.parts.part_check import PairFacts, PartCheck, Scenario, beside_eager

# Texts of one row, among them one of a token.
LENGTHS = (5, 1, 3)
TOLERANCE = 1e-4


def packed_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """A row of texts beside each text alone in the parent: by lengths, and by positions."""
    before: Any = parent.paths[0][0]
    model: Any = variant.paths[0][0]
    ids = facts.inputs.get("input_ids")
    if ids is None or ids.ndim != 2 or ids.shape[1] < sum(LENGTHS):
        raise CannotBuild("it takes no texts")
    row = ids[:1, : sum(LENGTHS)]
    before.eval()
    model.eval()
    alone = [_states(before, text, {}) for text in row.split(LENGTHS, 1)]
    expected = torch.cat(alone, 1)
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None].to(ids.device)
    ends = torch.tensor([0, *LENGTHS]).cumsum(0).int().to(ids.device)
    lengths = dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), ends)
    lengths |= dict.fromkeys(("max_length_q", "max_length_k"), max(LENGTHS))
    for way, told in (("lengths", lengths), ("positions", {})):
        states = _states(model, row, {"position_ids": positions, **told})
        if not _are_near(states, expected):
            yield f"texts of a row that {way} tell apart have other states than alone"
        theirs, ours = (_gradients(*side) for side in ((before, expected), (model, states)))
        for name, gradient in theirs.items():
            if name in ours and not _are_near(ours[name], gradient):
                yield f"the gradient of {name} is not that of the texts alone, by {way}"
                break


def _states(model: Any, ids: Tensor, told: dict[str, Any]) -> Tensor:
    output = model(input_ids=ids, use_cache=False, output_hidden_states=True, **told)
    states: Tensor = output.hidden_states[-1]
    return states


def _gradients(model: Any, states: Tensor) -> dict[str, Tensor]:
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    loss = states.square().sum()
    gradients = torch.autograd.grad(loss, [*weights.values()], retain_graph=True, allow_unused=True)
    return {n: g for n, g in zip(weights, gradients, strict=True) if g is not None}


def _are_near(one: Tensor, two: Tensor) -> bool:
    return bool((one - two).abs().max() <= TOLERANCE * (1 + two.abs().max()))


PACKED = PartCheck(
    part="packed",
    routes=lambda parent_class: beside_eager("its layers", EQUAL, {}, {}),
    effect=packed_effect,
    effect_scenario=Scenario(labels=False),
)
