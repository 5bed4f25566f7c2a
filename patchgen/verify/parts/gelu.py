"""gelu: the tanh form of GELU is one operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel

from patchgen.verify.differences import REFORMULATED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    eager = {"attn_implementation": "eager"}
    return Route("its layers", REFORMULATED), Route(
        "its layers under eager", REFORMULATED, eager, eager
    )


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    ours = variant.functions["gelu"] - parent.functions["gelu"]
    theirs = parent.functions["tanh"] - variant.functions["tanh"]
    if ours != theirs or not ours:
        yield f"{ours} GELUs by one operation, where the parent writes out {theirs}"
    if variant.saved_bytes >= parent.saved_bytes:
        saved = f"{variant.saved_bytes} bytes were saved"
        yield f"{saved} where the parent saves {parent.saved_bytes}"


@contextmanager
def no_activation(model: PreTrainedModel) -> Iterator[None]:
    for module in model.modules():
        if type(module).__name__ == "GELUTanh":
            module.act = nn.Identity()
    yield


PART_CHECK = PartCheck(
    part="gelu",
    says="the tanh form of GELU is one operation; the function is the parent's",
    routes=routes,
    effect=effect,
    planted_errors=(PlantedError("activation left out", "an MLP is linear", no_activation),),
)
