"""The part `linears`: experts as modules of `nn.Linear`.

Gradients are compared in the parent's terms: those of experts are stacked, with zeros for experts
that no token chose, which a loop over modules gives none.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from transformers import PreTrainedModel

from patchgen.verifying.differences import REFORMULATED, REORDERED
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.parts.part_check import Observation, PairFacts, PartCheck, Route

LOOP = {"experts_implementation": "eager"}


def experts_in(model: nn.Module) -> dict[str, list[list[str]]]:
    """By the name of a stacked weight of the parent, those of each expert in it."""
    stacked: dict[str, list[list[str]]] = {}
    for name, module in model.named_modules():
        if type(module).__name__ == "ExpertOfLinears":
            experts, _, _ = name.rpartition(".")
            *ups, down = [f"{name}.{linear}.weight" for linear, _ in module.named_children()]
            up = "gate_up_proj" if len(ups) > 1 else "up_proj"
            stacked.setdefault(f"{experts}.{up}", []).append(ups)
            stacked.setdefault(f"{experts}.down_proj", []).append([down])
    return stacked


def terms(observed: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients of experts as those of stacked weights."""
    found = dict(observed)
    for stacked, experts in experts_in(variant).items():
        names = [name for names in experts for name in names]
        given = [found.pop(f"gradient of {name}", None) for name in names]
        some = next((gradient for gradient in given if gradient is not None), None)
        if some is not None:
            rows = torch.stack([torch.zeros_like(some) if one is None else one for one in given])
            found[f"gradient of {stacked}"] = rows.view(len(experts), -1, rows.shape[-1])
    return found


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Each expert in the parent's stacked weights is a module, and Linears of some ran."""
    theirs, ours = parent.paths[0][0], variant.paths[0][0]
    modules = experts_in(ours)
    if not modules:
        yield "no expert is a module"
    for name, weight in theirs.named_parameters():
        if name in modules and len(modules[name]) != len(weight):
            yield f"{len(modules[name])} of the {len(weight)} experts in {name} are modules"
    parents = [type(path[-2]).__name__ for path in variant.paths if len(path) > 1]
    if "ExpertOfLinears" not in parents:
        yield "no Linear of an expert ran"


LINEARS = PartCheck(
    part="linears",
    routes=lambda parent_class: (
        Route("its loop over experts", REORDERED, parent=LOOP),
        Route("its grouped experts", REFORMULATED),
    ),
    effect=effect,
    terms=terms,
    # The number of an expert, by which the loop finds its module.
    ends_graphs=("Unsupported Tensor.item() call with capture_scalar_outputs=False",),
    # Else a tiny DeepSeek has no mixture in its layers.
    effect_changes={"first_k_dense_replace": 1},
)
